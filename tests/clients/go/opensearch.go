package main

import (
	"context"

	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/opensearch-project/opensearch-go/v4/opensearchutil"
)

// openSearchIndexer cannot request a part of the answers, because the client has no such option.
func openSearchIndexer(to options, operations []operation, reports *reports) (counts, error) {
	background := context.Background()
	client, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{
		Addresses:           []string{to.url},
		CompressRequestBody: to.compress,
	}})
	if err != nil {
		return counts{}, err
	}
	indexer, err := opensearchutil.NewBulkIndexer(opensearchutil.BulkIndexerConfig{
		Client: client, Index: to.index, NumWorkers: workers, FlushBytes: flushBytes, OnError: reports.failure,
	})
	if err != nil {
		return counts{}, err
	}
	for _, operation := range operations {
		item := opensearchutil.BulkIndexerItem{
			Action:     operation.Action,
			DocumentID: operation.id(),
			Routing:    operation.Routing,
			OnSuccess: func(_ context.Context, _ opensearchutil.BulkIndexerItem, item opensearchapi.BulkRespItem) {
				reports.item(operation, item.ID, item.Status, "")
			},
			OnFailure: func(c context.Context, _ opensearchutil.BulkIndexerItem, item opensearchapi.BulkRespItem, err error) {
				kind := ""
				if item.Error != nil {
					kind = item.Error.Type
				}
				if err != nil {
					reports.failure(c, err)
				}
				reports.item(operation, item.ID, item.Status, kind)
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
