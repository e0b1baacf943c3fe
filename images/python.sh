# Brings Python and its venv into a base that lacks them; a step of the builds of images/.
set -eu
if python3 -c 'import ensurepip, venv' 2>/dev/null; then exit 0; fi
if [ -s /run/secrets/ca_bundle ]; then
  echo 'Acquire::https::CaInfo "/run/secrets/ca_bundle";' > /etc/apt/apt.conf.d/98bundle
fi
apt-get update --quiet
DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends python3 python3-venv
apt-get clean
# Logs and caches have the times of this build. Python's own are made anew without: by content, as install.py does it.
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache \
  /var/lib/dpkg/*-old /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /etc/apt/apt.conf.d/98bundle
find /usr/lib/python3* -name __pycache__ -prune -exec rm -rf {} +
PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3* \
  || echo 'python.sh: the modules named above were not compiled'
