#!/bin/sh
# Indexes the documents of a file: one JSON object in each line, with an "id" that needs no escapes. Needs curl 7.76 and
# GNU sed.
#
#     ELASTICSEARCH_URL=http://127.0.0.1:9200 ./index-documents.sh INDEX FILE
#
# Prints the error of each document that was not indexed, and fails if there is one. Retries requests that were refused
# as a whole. Reports single documents that were refused with 429, without a retry: run it again, which does no harm.
set -eu
index=$1
file=$2
url=${ELASTICSEARCH_URL:-http://127.0.0.1:9200}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
mkdir "$folder/pieces"

# Adds an action line before each document, and splits the result into requests of 1,000 documents.
sed -E 's/.*"id": *"([^"]*)".*/{"index":{"_id":"\1"}}\n&/' "$file" | split --lines 2000 - "$folder/pieces/"

# One curl sends all requests, so that they share a connection. It reads the key from its standard input, so that the
# list of processes does not show it. `filter_path` reduces an answer to its errors.
for piece in "$folder"/pieces/*; do
    echo 'next'
    echo "url = \"$url/$index/_bulk?filter_path=errors,items.*.error\""
    echo 'header = "content-type: application/x-ndjson"'
    [ -z "${ELASTICSEARCH_API_KEY:-}" ] || echo "header = \"authorization: ApiKey $ELASTICSEARCH_API_KEY\""
    echo "data-binary = \"@$piece\""
    printf '%s\n' 'silent' 'show-error' 'fail-with-body' 'retry = 5' 'max-time = 120' 'write-out = "\n"'
done | curl --fail-early --config - > "$folder/answers" || { cat "$folder/answers" >&2; exit 1; }

# The requests were answered with 200; only the items show which documents were not indexed.
if grep --invert-match '^{"errors":false}$' "$folder/answers" >&2; then exit 1; fi
