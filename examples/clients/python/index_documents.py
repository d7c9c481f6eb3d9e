"""Indexes the documents of a file: one JSON object in each line, with an "id".

    ELASTICSEARCH_URL=http://127.0.0.1:9200 python3 index_documents.py INDEX FILE
"""

import json
import os
import sys

from elasticsearch import Elasticsearch
from elasticsearch.helpers import streaming_bulk


def main(index, path):
    # One client for the whole program keeps its connections open.
    client = Elasticsearch(
        os.environ.get("ELASTICSEARCH_URL", "http://127.0.0.1:9200"),
        api_key=os.environ.get("ELASTICSEARCH_API_KEY"),
        request_timeout=120,  # seconds; a busy cluster may take longer than the default of 10
    )
    indexed = failed = 0
    results = streaming_bulk(
        client,
        actions(index, path),
        chunk_size=1000,
        max_retries=5,  # of documents that were refused with 429; the default is 0
        initial_backoff=0.5,
        raise_on_error=False,  # a bad document does not end the program
    )
    for is_ok, result in results:
        if is_ok:
            indexed += 1
        else:  # the request as a whole was answered with 200, so check every item
            failed += 1
            item = result["index"]
            print(item["_id"], item["status"], item["error"]["type"], file=sys.stderr)
    print(f"{indexed} indexed, {failed} failed")
    return 1 if failed else 0


def actions(index, path):
    """Yields the operations. With ids, documents with an unknown outcome can be retried."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            yield {"_op_type": "index", "_index": index, "_id": document["id"], "_source": document}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
