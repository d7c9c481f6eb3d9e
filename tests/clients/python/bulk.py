"""Sends operations with the installed client, elasticsearch-py or opensearch-py. See ../README.md."""

import argparse
import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

try:
    import opensearchpy as library
    from opensearchpy import OpenSearch as Client
    from opensearchpy import helpers
except ImportError:
    import elasticsearch as library
    from elasticsearch import Elasticsearch as Client
    from elasticsearch import helpers

CHUNK = 25
THREADS = 4
# The fields of an answer that the helpers read and that the report needs.
FILTER_PATH = "errors,items.*.status,items.*.error,items.*._id"


def main():
    arguments = parsed_arguments()
    with open(arguments.operations) as lines:
        operations = [json.loads(line) for line in lines]
    actions = [action(arguments.index, operation) for operation in operations]
    options = {"chunk_size": CHUNK, "raise_on_error": False}
    if arguments.filter_path:
        options["filter_path"] = FILTER_PATH
    succeeded, failed = HELPERS[arguments.helper](arguments, operations, actions, options)
    print(json.dumps({"succeeded": succeeded, "failed": failed}))


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("helper", choices=sorted(HELPERS))
    parser.add_argument("url")
    parser.add_argument("index")
    parser.add_argument("operations")
    parser.add_argument("--compress", action="store_true")
    parser.add_argument("--filter-path", action="store_true")
    return parser.parse_args()


def action(index, operation):
    made = {"_op_type": operation["action"], "_index": index}
    for field, key in (("_id", "id"), ("routing", "routing")):
        if operation[key] is not None:
            made[field] = operation[key]
    if operation["action"] == "update":
        made["doc"] = operation["document"]
    elif operation["action"] != "delete":
        made["_source"] = operation["document"]
    return made


# --- the helpers; each returns the numbers of operations that succeeded and failed

def bulk(arguments, _, actions, options):
    succeeded, errors = helpers.bulk(client(arguments), actions, **options)
    for error in errors:
        report(None, error)
    return succeeded, len(errors)


def streaming_bulk(arguments, operations, actions, options):
    return report_all(operations, helpers.streaming_bulk(client(arguments), actions, **options))


def parallel_bulk(arguments, operations, actions, options):
    results = helpers.parallel_bulk(client(arguments), actions, thread_count=THREADS, **options)
    return report_all(operations, results)


def async_bulk(arguments, operations, actions, options):
    async def run():
        async with async_client(arguments) as connected:
            succeeded, errors = await helpers.async_bulk(connected, actions, **options)
            for error in errors:
                report(None, error)
            return succeeded, len(errors)
    return asyncio.run(run())


def async_streaming_bulk(arguments, operations, actions, options):
    async def send(connected, part):
        results = helpers.async_streaming_bulk(connected, actions[part::THREADS], **options)
        return report_all(operations[part::THREADS], [result async for result in results])

    async def run():
        async with async_client(arguments) as connected:
            counts = await asyncio.gather(*(send(connected, part) for part in range(THREADS)))
            return tuple(sum(count) for count in zip(*counts))
    return asyncio.run(run())


def single(arguments, operations, *_):
    connected = client(arguments)
    options = {"filter_path": "_id,_version,result,error,status"} if arguments.filter_path else {}
    with ThreadPoolExecutor(THREADS) as threads:
        results = list(threads.map(lambda operation: send(connected, arguments.index, operation, options), operations))
    return report_all(operations, results)


def send(connected, index, operation, options):
    """Sends an operation in a request of its own. Returns its outcome like a helper."""
    action = operation["action"]
    options = {"index": index, **options}
    options.update({key: operation[key] for key in ("id", "routing") if operation[key] is not None})
    if action == "update":
        options.update(doc=operation["document"]) if IS_NEW else options.update(body={"doc": operation["document"]})
    elif action != "delete":
        options["document" if IS_NEW else "body"] = operation["document"]
    try:
        answer = getattr(connected, action)(**options)
        status = {"created": 201, "updated": 200, "deleted": 200}[answer["result"]]
        return True, {action: {"_id": answer["_id"], "_version": answer["_version"], "status": status}}
    except (library.TransportError, *([library.ApiError] if IS_NEW else [])) as failure:
        answer = failure.body if IS_NEW else failure.info
        return False, {action: {"_id": operation["id"], "status": failure.status_code, "error": answer.get("error")}}


# Clients of version 8 take parameters in place of a body.
IS_NEW = hasattr(library, "ApiError")
ALL = (bulk, streaming_bulk, parallel_bulk, async_bulk, async_streaming_bulk, single)
HELPERS = {helper.__name__: helper for helper in ALL}


def client(arguments):
    return Client(arguments.url, http_compress=arguments.compress)


def async_client(arguments):
    return library.AsyncElasticsearch(arguments.url, http_compress=arguments.compress, node_class="httpxasync")


def report_all(operations, results):
    """Reports the results, of which the helpers yield one for each operation, in order."""
    counts = {True: 0, False: 0}
    for operation, (is_ok, result) in zip(operations, results):
        counts[is_ok] += 1
        report(operation["n"], result)
    return counts[True], counts[False]


def report(n, result):
    (name, item), = result.items()
    error = item.get("error")
    print(json.dumps({
        "n": n,
        "action": name,
        "id": item.get("_id"),
        "status": item.get("status"),
        "version": item.get("_version"),
        "error": error["type"] if isinstance(error, dict) else error,
    }))


if __name__ == "__main__":
    main()
