// Indexes the documents of a file: one JSON object in each line, with an "id".
//
//	ELASTICSEARCH_URL=http://127.0.0.1:9200 go run . INDEX FILE
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/esutil"
)

const attempts = 6

type document struct {
	id   string
	line []byte
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("expected: INDEX FILE")
	}
	// One client for the whole program keeps its connections open. It reads ELASTICSEARCH_URL itself.
	client, err := elasticsearch.NewClient(elasticsearch.Config{
		APIKey:        os.Getenv("ELASTICSEARCH_API_KEY"),
		RetryOnStatus: []int{429, 502, 503, 504},
		RetryBackoff:  backoff,
		MaxRetries:    attempts - 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	documents, err := read(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	indexed, failed := 0, 0
	// The indexer does not retry documents that were refused with 429.
	for attempt := 1; len(documents) > 0; attempt++ {
		outcome := index(client, os.Args[1], documents, attempt == attempts)
		indexed, failed, documents = indexed+outcome.indexed, failed+outcome.failed, outcome.refused
		if len(documents) > 0 {
			time.Sleep(backoff(attempt))
		}
	}
	fmt.Printf("%d indexed, %d failed\n", indexed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

type outcome struct {
	indexed, failed int
	refused         []document
}

func index(client *elasticsearch.Client, name string, documents []document, isLast bool) (found outcome) {
	indexer, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{
		Client: client, Index: name, NumWorkers: 4, FlushBytes: 1_000_000,
	})
	if err != nil {
		log.Fatal(err)
	}
	var mutex sync.Mutex // the workers call back concurrently
	for _, each := range documents {
		err := indexer.Add(context.Background(), esutil.BulkIndexerItem{
			Action:     "index",
			DocumentID: each.id, // with ids, documents with an unknown outcome can be retried
			Body:       bytes.NewReader(each.line),
			OnSuccess: func(context.Context, esutil.BulkIndexerItem, esutil.BulkIndexerResponseItem) {
				mutex.Lock()
				defer mutex.Unlock()
				found.indexed++
			},
			// The request as a whole was answered with 200: only the items show which documents were not indexed.
			OnFailure: func(_ context.Context, _ esutil.BulkIndexerItem, item esutil.BulkIndexerResponseItem, err error) {
				mutex.Lock()
				defer mutex.Unlock()
				if item.Status == 429 && !isLast {
					found.refused = append(found.refused, each)
					return
				}
				found.failed++
				if err != nil { // the whole request failed
					log.Println(each.id, err)
				} else {
					log.Println(each.id, item.Status, item.Error.Type)
				}
			},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := indexer.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	return found
}

func backoff(attempt int) time.Duration {
	return 250 * time.Millisecond << attempt
}

func read(path string) (documents []document, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(content) {
		var head struct{ ID string }
		if err := json.Unmarshal(line, &head); err != nil {
			return nil, err
		}
		documents = append(documents, document{head.ID, bytes.TrimSpace(line)})
	}
	return documents, nil
}
