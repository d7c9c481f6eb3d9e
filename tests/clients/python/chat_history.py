"""Writes conversations with LangChain's chat history, each in a thread of its own, and reads them back.

After each message the program reads the conversation, which must have all messages so far. At the end it prints each
conversation as a line of JSON.
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor

from elasticsearch import Elasticsearch
from langchain_core.messages import AIMessage, HumanMessage
from langchain_elasticsearch import ElasticsearchChatMessageHistory


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("index")
    parser.add_argument("messages", type=int, help="the number of messages of each conversation")
    parser.add_argument("sessions", nargs="+", help="the ids of the conversations")
    arguments = parser.parse_args()
    client = Elasticsearch(arguments.url)
    with ThreadPoolExecutor(len(arguments.sessions)) as threads:
        for conversation in threads.map(lambda session: talk(client, arguments, session), arguments.sessions):
            print(json.dumps(conversation))


def talk(client, arguments, session):
    history = ElasticsearchChatMessageHistory(index=arguments.index, session_id=session, client=client)
    sent = []
    for n in range(arguments.messages):
        kind = AIMessage if n % 2 else HumanMessage
        message = kind(f"{session} says “{n}”\nin two lines")
        history.add_message(message)
        sent.append([message.type, message.content])
        found = [[message.type, message.content] for message in history.messages]
        if found != sent:
            raise AssertionError(f"read {found} after {sent}")
    return {"session": session, "messages": found}


if __name__ == "__main__":
    main()
