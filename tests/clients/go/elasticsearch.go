package main

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strings"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/esapi"
	"github.com/elastic/go-elasticsearch/v8/esutil"
)

var elasticsearchClient = client{elasticsearchIndexer, elasticsearchSender, esutil.NewJSONReader}

func connectElasticsearch(to options) (*elasticsearch.Client, error) {
	return elasticsearch.NewClient(elasticsearch.Config{
		Addresses:           []string{to.url},
		CompressRequestBody: to.compress,
	})
}

func elasticsearchIndexer(to options, operations []operation, reports *reports) (counts, error) {
	background := context.Background()
	client, err := connectElasticsearch(to)
	if err != nil {
		return counts{}, err
	}
	config := esutil.BulkIndexerConfig{
		Client: client, Index: to.index, NumWorkers: workers, FlushBytes: flushBytes, OnError: reports.failure,
	}
	if to.filterPath {
		config.FilterPath = strings.Split(filterPath, ",")
	}
	indexer, err := esutil.NewBulkIndexer(config)
	if err != nil {
		return counts{}, err
	}
	for _, operation := range operations {
		item := esutil.BulkIndexerItem{
			Action:     operation.Action,
			DocumentID: operation.id(),
			Routing:    operation.routing(),
			OnSuccess: func(_ context.Context, _ esutil.BulkIndexerItem, item esutil.BulkIndexerResponseItem) {
				reports.item(operation, item.DocumentID, item.Status, item.Version, "")
			},
			OnFailure: func(c context.Context, _ esutil.BulkIndexerItem, item esutil.BulkIndexerResponseItem, err error) {
				if err != nil {
					reports.failure(c, err)
				}
				reports.item(operation, item.DocumentID, item.Status, 0, item.Error.Type)
			},
		}
		if body := operation.body(); body != nil {
			item.Body = body
		}
		if err := indexer.Add(background, item); err != nil {
			return counts{}, err
		}
	}
	if err := indexer.Close(background); err != nil {
		return counts{}, err
	}
	stats := indexer.Stats()
	return counts{Succeeded: stats.NumFlushed, Failed: stats.NumFailed}, nil
}

func elasticsearchSender(to options) (func(operation, io.Reader) (answer, error), error) {
	client, err := connectElasticsearch(to)
	if err != nil {
		return nil, err
	}
	return func(operation operation, body io.Reader) (got answer, err error) {
		// The client does not escape ids.
		index, id, routing := to.index, url.PathEscape(operation.id()), operation.routing()
		var request esapi.Request
		switch operation.Action {
		case "create":
			request = esapi.CreateRequest{Index: index, DocumentID: id, Routing: routing, Body: body}
		case "update":
			request = esapi.UpdateRequest{Index: index, DocumentID: id, Routing: routing, Body: body}
		case "delete":
			request = esapi.DeleteRequest{Index: index, DocumentID: id, Routing: routing}
		default:
			request = esapi.IndexRequest{Index: index, DocumentID: id, Routing: routing, Body: body}
		}
		response, err := request.Do(context.Background(), client)
		if err != nil {
			return got, err
		}
		defer response.Body.Close()
		got.Status = response.StatusCode
		return got, json.NewDecoder(response.Body).Decode(&got)
	}, nil
}
