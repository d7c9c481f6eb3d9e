package main

import (
	"fmt"
	"os"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/mesh"
)

// Files are the paths of what is served.
type Files struct {
	Istio      string
	Kubernetes string
	Mesh       string
}

// Options reads all files.
func (files Files) Options() (xds.FakeOptions, error) {
	configs, err := files.Configs()
	if err != nil {
		return xds.FakeOptions{}, err
	}
	kubernetes, err := read(files.Kubernetes)
	if err != nil {
		return xds.FakeOptions{}, err
	}
	text, err := read(files.Mesh)
	if err != nil {
		return xds.FakeOptions{}, err
	}
	meshConfig, err := mesh.ApplyMeshConfigDefaults(text)
	if err != nil {
		return xds.FakeOptions{}, fmt.Errorf("%s: %w", files.Mesh, err)
	}
	return xds.FakeOptions{Configs: configs, KubernetesObjectString: kubernetes, MeshConfig: meshConfig}, nil
}

// Configs reads and checks the Istio resources.
func (files Files) Configs() ([]config.Config, error) {
	text, err := read(files.Istio)
	if err != nil {
		return nil, err
	}
	configs, others, err := crd.ParseInputs(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Istio, err)
	}
	for _, other := range others {
		return nil, fmt.Errorf("%s: Istio has no %s %s", files.Istio, other.APIVersion, other.Kind)
	}
	return configs, nil
}

func read(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	return string(text), err
}
