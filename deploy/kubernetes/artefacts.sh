# Init container of speech: waits until the weights and voices of the release lie on the volume, whole. Beside this script
# is a list of SHA-256 checksums for each.
set -u
cd /var/lib/voxyard/artefacts || exit
for list in /etc/voxyard/artefacts/*-*; do
  name=$(basename "$list")
  [ "$(cat ".$name.verified" 2>/dev/null)" = "$(sha256sum <"$list")" ] && continue
  mkdir -p "$name" || exit
  until (cd "$name" && sha256sum --check --status "$list" 2>/dev/null); do
    echo "waiting for $name: kubectl --namespace $NAMESPACE cp --container artefacts DIRECTORY/. $HOSTNAME:$PWD/$name"
    sleep 10
  done
  sha256sum <"$list" >".$name.verified"
  echo "$name is complete"
done
