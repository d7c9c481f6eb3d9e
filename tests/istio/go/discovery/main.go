// Command discovery serves istiod's own xDS from YAML files, without a Kubernetes API server.
//
// It runs istiod's DiscoveryServer and configuration generator on istiod's in-memory store and fake Kubernetes client.
// It also handles the filters' modules as Istio's agent does. `POST /reload` at the control address reads the resources
// again. It answers 200 once they are stored, or 400 with the error, and then nothing changes. The control address also
// serves Istio's own /debug pages.
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
	address := flag.String("address", "127.0.0.1:15010", "address at which proxies get their configuration")
	control := flag.String("control", "127.0.0.1:15014", "address of POST /reload and the /debug pages")
	flag.StringVar(&files.Istio, "istio", "", "file with Istio resources")
	flag.StringVar(&files.Kubernetes, "kubernetes", "", "file with Kubernetes objects")
	flag.StringVar(&files.Mesh, "mesh", "", "file with the mesh configuration")
	modules := flag.String("modules", ".", "folder for fetched modules")
	flag.Parse()
	if err := test.Wrap(func(failer test.Failer) { serve(failer, files, *modules, *address, *control) }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve runs until a signal arrives. The failer cleans up what serve starts.
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

// beAgent adds the work of Istio's agent, which runs between istiod and each Envoy.
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
