#!/bin/sh
# Indexes the documents of a file: one JSON object in each line, with an "id" that needs no escapes. Needs curl 7.76 and
# GNU sed.
#
#     ELASTICSEARCH_URL=http://127.0.0.1:9200 ./index-documents.sh INDEX FILE
#
# Prints the error of each document that was not indexed, and fails if there is one. Sends again what was refused as a
# whole; of single documents that were refused (429) it only tells: start it once more, it does no harm.
set -eu
index=$1
file=$2
url=${ELASTICSEARCH_URL:-http://127.0.0.1:9200}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
mkdir "$folder/pieces"

# An action line before each document; then requests of 1,000 documents.
sed -E 's/.*"id": *"([^"]*)".*/{"index":{"_id":"\1"}}\n&/' "$file" | split --lines 2000 - "$folder/pieces/"

# One curl for all requests, so that they share a connection. It reads the key here, so that nobody sees it in the list of
# processes. `filter_path` leaves nothing of an answer but the errors.
for piece in "$folder"/pieces/*; do
    echo 'next'
    echo "url = \"$url/$index/_bulk?filter_path=errors,items.*.error\""
    echo 'header = "content-type: application/x-ndjson"'
    [ -z "${ELASTICSEARCH_API_KEY:-}" ] || echo "header = \"authorization: ApiKey $ELASTICSEARCH_API_KEY\""
    echo "data-binary = \"@$piece\""
    printf '%s\n' 'silent' 'show-error' 'fail-with-body' 'retry = 5' 'max-time = 120' 'write-out = "\n"'
done | curl --fail-early --config - > "$folder/answers" || { cat "$folder/answers" >&2; exit 1; }

# The requests were answered with 200; only this tells of the documents that were not indexed.
if grep --invert-match '^{"errors":false}$' "$folder/answers" >&2; then exit 1; fi
