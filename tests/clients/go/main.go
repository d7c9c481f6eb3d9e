// Sends operations with the BulkIndexer of the client for Elasticsearch or OpenSearch. See ../README.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
)

const (
	workers    = 4
	flushBytes = 2000
	// The fields of an answer that the indexer reads and that the report needs.
	filterPath = "errors,items.*.status,items.*.error,items.*._id,items.*.result"
)

type operation struct {
	N        int             `json:"n"`
	Action   string          `json:"action"`
	ID       *string         `json:"id"`
	Routing  *string         `json:"routing"`
	Document json.RawMessage `json:"document"`
}

type options struct {
	url, index           string
	compress, filterPath bool
}

// An indexer sends all operations, reports each of them, and returns its own counts.
type indexer func(options, []operation, *reports) (counts, error)

type counts struct {
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
}

func main() {
	compress := flag.Bool("compress", false, "compress the requests")
	path := flag.Bool("filter-path", false, "request only a part of the answers")
	flag.Parse()
	log.SetFlags(0)
	if flag.NArg() != 4 {
		log.Fatal("expected: [options] elasticsearch|opensearch URL INDEX FILE")
	}
	operations, err := read(flag.Arg(3))
	if err != nil {
		log.Fatal(err)
	}
	run := map[string]indexer{"elasticsearch": elasticsearchIndexer, "opensearch": openSearchIndexer}[flag.Arg(0)]
	if run == nil {
		log.Fatalf("%s is neither elasticsearch nor opensearch", flag.Arg(0))
	}
	made := &reports{}
	counted, err := run(options{flag.Arg(1), flag.Arg(2), *compress, *path}, operations, made)
	if err != nil {
		log.Fatal(err)
	}
	made.print(counted)
}

func read(path string) ([]operation, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var operations []operation
	for line := range bytes.Lines(content) {
		var read operation
		if err := json.Unmarshal(line, &read); err != nil {
			return nil, err
		}
		operations = append(operations, read)
	}
	return operations, nil
}

func (o operation) id() string {
	if o.ID == nil {
		return ""
	}
	return *o.ID
}

// body returns the line that follows the action line; none for a delete.
func (o operation) body() *bytes.Reader {
	switch o.Action {
	case "delete":
		return nil
	case "update":
		return bytes.NewReader(fmt.Appendf(nil, `{"doc":%s}`, o.Document))
	default:
		return bytes.NewReader(o.Document)
	}
}

// reports prints the reports of concurrent workers, one line after the other.
type reports struct{ mutex sync.Mutex }

func (r *reports) item(of operation, id string, status int, errorType string) {
	var kind *string
	if errorType != "" {
		kind = &errorType
	}
	r.print(map[string]any{"n": of.N, "action": of.Action, "id": id, "status": status, "error": kind})
}

// failure reports an error that does not belong to an item.
func (r *reports) failure(_ context.Context, err error) {
	log.Print(err)
}

func (r *reports) print(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	fmt.Println(string(line))
}
