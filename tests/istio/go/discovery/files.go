package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pilot/pkg/features"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/mesh"
)

// Files are the paths of the resources to serve.
type Files struct {
	Istio      string
	Kubernetes string
	Mesh       string
}

// Resources are the contents of the files.
type Resources struct {
	istio      []config.Config
	kubernetes map[place]runtime.Object
}

// Read reads and checks the resources.
func (files Files) Read() (Resources, error) {
	text, err := read(files.Istio)
	if err != nil {
		return Resources{}, err
	}
	configs, others, err := crd.ParseInputs(text)
	if err != nil {
		return Resources{}, fmt.Errorf("%s: %w", files.Istio, err)
	}
	for _, other := range others {
		return Resources{}, fmt.Errorf("%s: Istio has no %s %s", files.Istio, other.APIVersion, other.Kind)
	}
	if text, err = read(files.Kubernetes); err != nil {
		return Resources{}, err
	}
	kubernetes, err := objects(text)
	if err != nil {
		return Resources{}, fmt.Errorf("%s: %w", files.Kubernetes, err)
	}
	return Resources{configs, kubernetes}, nil
}

// Options returns the options of a server with these resources.
func (files Files) Options(resources Resources) (xds.FakeOptions, error) {
	text, err := read(files.Mesh)
	if err != nil {
		return xds.FakeOptions{}, err
	}
	meshConfig, err := mesh.ApplyMeshConfigDefaults(text)
	if err != nil {
		return xds.FakeOptions{}, fmt.Errorf("%s: %w", files.Mesh, err)
	}
	return xds.FakeOptions{
		Configs:           resources.istio,
		KubernetesObjects: slices.Collect(maps.Values(resources.kubernetes)),
		MeshConfig:        meshConfig,
		// Without it, each resource of a reload would be a push of its own, computed beside the others.
		DebounceTime: features.DebounceAfter,
	}, nil
}

func read(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	return string(text), err
}
