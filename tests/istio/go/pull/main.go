// Pull fetches a filter's module from a registry with the code of Istio's agent.
//
//	pull URL SHA256 FOLDER
//
// URL and SHA256 are the fields of a WasmPlugin; SHA256 may be empty. Pull prints the path of the module in FOLDER.
package main

import (
	"fmt"
	"os"
	"time"

	"istio.io/istio/pkg/wasm"
)

func main() {
	if len(os.Args) != 4 {
		fail("usage: pull URL SHA256 FOLDER")
	}
	cache := wasm.NewLocalFileCache(os.Args[3], wasm.Options{
		PurgeInterval:         time.Hour,
		ModuleExpiry:          time.Hour,
		HTTPRequestTimeout:    10 * time.Second,
		HTTPRequestMaxRetries: 1,
	})
	defer cache.Cleanup()
	module, err := cache.Get(os.Args[1], wasm.GetOptions{
		Checksum:       os.Args[2],
		ResourceName:   "search/bulk-reshuffle",
		RequestTimeout: 30 * time.Second,
	})
	if err != nil {
		fail(err)
	}
	fmt.Println(module)
}

func fail(reason any) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}
