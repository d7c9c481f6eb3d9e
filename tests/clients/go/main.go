// Sends operations with the client for Elasticsearch or OpenSearch, by its BulkIndexer or one by one. See ../README.md.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"sync/atomic"
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

// A client's ways to send operations.
type client struct {
	// all sends all operations, reports each of them, and returns its own counts.
	all func(options, []operation, *reports) (counts, error)
	// one returns a function that sends an operation in a request of its own.
	one func(options) (func(operation, io.Reader) (answer, error), error)
	// encoded returns a reader of a document that the client encodes.
	encoded func(document any) io.Reader
}

// answer is what a client returns for an operation in a request of its own.
type answer struct {
	Status  int    `json:"-"` // that of the response
	ID      string `json:"_id"`
	Version int64  `json:"_version"`
	Result  string `json:"result"`
	Error   struct {
		Type string `json:"type"`
	} `json:"error"`
}

// The statuses of answers without an error, by their result.
var statuses = map[string]int{"created": 201, "updated": 200, "deleted": 200, "not_found": 404}

type counts struct {
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
}

func main() {
	compress := flag.Bool("compress", false, "compress the requests")
	path := flag.Bool("filter-path", false, "request only a part of the answers")
	single := flag.Bool("single", false, "send each operation in a request of its own")
	encoded := flag.Bool("json-reader", false, "with -single: let the client encode the documents")
	flag.Parse()
	log.SetFlags(0)
	if flag.NArg() != 4 {
		log.Fatal("expected: [options] elasticsearch|opensearch URL INDEX FILE")
	}
	operations, err := read(flag.Arg(3))
	if err != nil {
		log.Fatal(err)
	}
	client, isKnown := map[string]client{"elasticsearch": elasticsearchClient, "opensearch": openSearchClient}[flag.Arg(0)]
	if !isKnown {
		log.Fatalf("%s is neither elasticsearch nor opensearch", flag.Arg(0))
	}
	made := &reports{}
	send := client.all
	if *single {
		send = client.each(*encoded)
	}
	counted, err := send(options{flag.Arg(1), flag.Arg(2), *compress, *path}, operations, made)
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

func (o operation) routing() string {
	if o.Routing == nil {
		return ""
	}
	return *o.Routing
}

// content returns the document, or that of an update request; none for a delete.
func (o operation) content() json.RawMessage {
	switch o.Action {
	case "delete":
		return nil
	case "update":
		return fmt.Appendf(nil, `{"doc":%s}`, o.Document)
	default:
		return o.Document
	}
}

// body returns the line that follows the action line; none for a delete.
func (o operation) body() *bytes.Reader {
	if content := o.content(); content != nil {
		return bytes.NewReader(content)
	}
	return nil
}

// each returns a function that sends each operation in a request of its own.
func (c client) each(isEncoded bool) func(options, []operation, *reports) (counts, error) {
	return func(to options, operations []operation, reports *reports) (counts, error) {
		send, err := c.one(to)
		if err != nil {
			return counts{}, err
		}
		var succeeded, failed atomic.Uint64
		var group sync.WaitGroup
		for first := range workers {
			group.Go(func() {
				for place := first; place < len(operations); place += workers {
					operation := operations[place]
					var body io.Reader = operation.body()
					if isEncoded {
						body = c.encoded(operation.content())
					}
					answer, err := send(operation, body)
					if err != nil {
						log.Fatal(err)
					}
					if answer.Error.Type == "" && answer.Status != statuses[answer.Result] {
						log.Fatalf("%+v for %+v", answer, operation)
					}
					if answer.Status < 300 {
						succeeded.Add(1)
					} else {
						failed.Add(1)
					}
					id := cmp.Or(answer.ID, operation.id())
					reports.item(operation, id, answer.Status, answer.Version, answer.Error.Type)
				}
			})
		}
		group.Wait()
		return counts{Succeeded: succeeded.Load(), Failed: failed.Load()}, nil
	}
}

// reports prints the reports of concurrent workers, one line after the other.
type reports struct{ mutex sync.Mutex }

func (r *reports) item(of operation, id string, status int, version int64, errorType string) {
	var kind *string
	if errorType != "" {
		kind = &errorType
	}
	r.print(map[string]any{"n": of.N, "action": of.Action, "id": id, "status": status, "version": version, "error": kind})
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
