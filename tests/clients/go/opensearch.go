package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/opensearch-project/opensearch-go/v4/opensearchutil"
)

var openSearchClient = client{openSearchIndexer, openSearchSender, opensearchutil.NewJSONReader}

func connectOpenSearch(to options) (*opensearchapi.Client, error) {
	return opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{
		Addresses:           []string{to.url},
		CompressRequestBody: to.compress,
	}})
}

// openSearchIndexer cannot request a part of the answers, because the client has no such option.
func openSearchIndexer(to options, operations []operation, reports *reports) (counts, error) {
	background := context.Background()
	client, err := connectOpenSearch(to)
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
				reports.item(operation, item.ID, item.Status, int64(item.Version), "")
			},
			OnFailure: func(c context.Context, _ opensearchutil.BulkIndexerItem, item opensearchapi.BulkRespItem, err error) {
				kind := ""
				if item.Error != nil {
					kind = item.Error.Type
				}
				if err != nil {
					reports.failure(c, err)
				}
				reports.item(operation, item.ID, item.Status, 0, kind)
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

func openSearchSender(to options) (func(operation, io.Reader) (answer, error), error) {
	client, err := connectOpenSearch(to)
	if err != nil {
		return nil, err
	}
	return func(operation operation, body io.Reader) (answer, error) {
		background, index, id := context.Background(), to.index, operation.id()
		switch operation.Action {
		case "create":
			parameters := opensearchapi.DocumentCreateParams{Routing: operation.routing()}
			request := opensearchapi.DocumentCreateReq{Index: index, DocumentID: id, Body: body, Params: parameters}
			got, err := client.Document.Create(background, request)
			return openSearchAnswer(got.ID, got.Version, got.Result, got.Inspect(), err)
		case "update":
			parameters := opensearchapi.UpdateParams{Routing: operation.routing()}
			request := opensearchapi.UpdateReq{Index: index, DocumentID: id, Body: body, Params: parameters}
			got, err := client.Update(background, request)
			return openSearchAnswer(got.ID, got.Version, got.Result, got.Inspect(), err)
		case "delete":
			parameters := opensearchapi.DocumentDeleteParams{Routing: operation.routing()}
			request := opensearchapi.DocumentDeleteReq{Index: index, DocumentID: id, Params: parameters}
			got, err := client.Document.Delete(background, request)
			return openSearchAnswer(got.ID, got.Version, got.Result, got.Inspect(), err)
		default:
			parameters := opensearchapi.IndexParams{Routing: operation.routing()}
			request := opensearchapi.IndexReq{Index: index, DocumentID: id, Body: body, Params: parameters}
			got, err := client.Index(background, request)
			return openSearchAnswer(got.ID, got.Version, got.Result, got.Inspect(), err)
		}
	}, nil
}

func openSearchAnswer(id string, version int, result string, of opensearchapi.Inspect, err error) (answer, error) {
	var failure *opensearch.StructError
	var missing *opensearch.StringError // the whole answer of a delete of a missing document
	got := answer{ID: id, Version: int64(version), Result: result}
	switch {
	case errors.As(err, &failure):
		got.Status, got.Error.Type = failure.Status, failure.Err.Type
	case errors.As(err, &missing):
		got.Status = missing.Status
		return got, json.Unmarshal([]byte(missing.Err), &got)
	case err != nil:
		return got, err
	default:
		got.Status = of.Response.StatusCode
	}
	return got, nil
}
