package main

import (
	"context"
	"strings"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/esutil"
)

func elasticsearchIndexer(to options, operations []operation, reports *reports) (counts, error) {
	background := context.Background()
	client, err := elasticsearch.NewClient(elasticsearch.Config{
		Addresses:           []string{to.url},
		CompressRequestBody: to.compress,
	})
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
			OnSuccess: func(_ context.Context, _ esutil.BulkIndexerItem, item esutil.BulkIndexerResponseItem) {
				reports.item(operation, item.DocumentID, item.Status, "")
			},
			OnFailure: func(c context.Context, _ esutil.BulkIndexerItem, item esutil.BulkIndexerResponseItem, err error) {
				if err != nil {
					reports.failure(c, err)
				}
				reports.item(operation, item.DocumentID, item.Status, item.Error.Type)
			},
		}
		if operation.Routing != nil {
			item.Routing = *operation.Routing
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
