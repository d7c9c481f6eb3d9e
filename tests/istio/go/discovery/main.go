// Command discovery serves istiod's own xDS from YAML files, without a Kubernetes API server.
//
// It is istiod's DiscoveryServer with its configuration generator, over its store in memory and its fake Kubernetes
// client, and does besides what Istio's agent does to the filters' modules. `POST /reload` at the control address reads
// the resources again and answers 200 once they are stored, or 400 with what is wrong with them; then nothing has
// changed. Istio's own /debug pages are there too.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/model"
	"istio.io/istio/pkg/test"
	"istio.io/istio/pkg/wasm"
)

func main() {
	var files Files
	address := flag.String("address", "127.0.0.1:15010", "where proxies get their configuration")
	control := flag.String("control", "127.0.0.1:15014", "where POST /reload and the /debug pages are")
	flag.StringVar(&files.Istio, "istio", "", "file of Istio resources")
	flag.StringVar(&files.Kubernetes, "kubernetes", "", "file of Kubernetes objects")
	flag.StringVar(&files.Mesh, "mesh", "", "file with the mesh configuration")
	modules := flag.String("modules", ".", "folder for modules that are fetched")
	flag.Parse()
	if err := test.Wrap(func(failer test.Failer) { serve(failer, files, *modules, *address, *control) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve ends with a signal; what it has started, the failer cleans up.
func serve(failer test.Failer, files Files, modules, address, control string) {
	resources, err := files.Read()
	if err != nil {
		failer.Fatal(err)
	}
	options, err := files.Options(resources)
	if err != nil {
		failer.Fatal(err)
	}
	options.ListenerBuilder = func() (net.Listener, error) { return net.Listen("tcp", address) }
	server := xds.NewFakeDiscoveryServer(failer, options)
	beAgent(server, modules)
	pages := http.NewServeMux()
	pages.Handle("/debug/", server.DiscoveryDebug)
	pages.Handle("POST /reload", &Reload{
		files:      files,
		store:      Store{server.Store(), resources.istio},
		kubernetes: Kubernetes{server.KubeClient().Kube().(*fake.Clientset).Tracker(), resources.kubernetes},
	})
	listener, err := net.Listen("tcp", control)
	if err != nil {
		failer.Fatal(err)
	}
	go http.Serve(listener, pages)
	fmt.Println("serving at", address)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
}

// beAgent stands in for the agent that is between istiod and each Envoy.
func beAgent(server *xds.FakeDiscoveryServer, modules string) {
	cache := wasm.NewLocalFileCache(modules, wasm.Options{
		PurgeInterval:         time.Hour,
		ModuleExpiry:          time.Hour,
		HTTPRequestTimeout:    time.Second,
		HTTPRequestMaxRetries: 1,
	})
	generators := server.Discovery.Generators
	generators[model.ExtensionConfigurationType] = Modules{generators[model.ExtensionConfigurationType], cache}
	generators[model.SecretType] = Secrets{generators[model.SecretType]}
}
