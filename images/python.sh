# Brings Python and its venv into a base that lacks them; a step of the builds of images/.
set -eu
if python3 -c 'import ensurepip, venv' 2>/dev/null; then exit 0; fi
if [ -s /run/secrets/ca_bundle ]; then
  echo 'Acquire::https::CaInfo "/run/secrets/ca_bundle";' > /etc/apt/apt.conf.d/98bundle
fi
apt-get update --quiet
DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends python3 python3-venv
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /etc/apt/apt.conf.d/98bundle
