# Init container of the speech service: waits until the weights and voices of the release lie on the volume, whole.
# /etc/voxyard/artefacts has a list of SHA-256 checksums for each.
set -u
cd /volume || exit
mkdir -p data artefacts || exit
for list in /etc/voxyard/artefacts/*; do
  name=$(basename "$list")
  [ "$(cat "artefacts/.$name.verified" 2>/dev/null)" = "$(sha256sum <"$list")" ] && continue
  mkdir -p "artefacts/$name" || exit
  until (cd "artefacts/$name" && sha256sum --check --status "$list" 2>/dev/null); do
    echo "waiting for $name: kubectl --namespace $NAMESPACE cp --container artefacts DIRECTORY/. $HOSTNAME:/volume/artefacts/$name"
    sleep 10
  done
  sha256sum <"$list" >"artefacts/.$name.verified"
  echo "$name is complete"
done
