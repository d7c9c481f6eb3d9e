package main

import (
	"google.golang.org/protobuf/types/known/anypb"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/spiffe"
	"istio.io/istio/pkg/wasm"
)

// Modules changes the filters' configurations as Istio's agent does beside each Envoy: it fetches modules, and replaces
// filters whose modules it cannot fetch.
type Modules struct {
	model.XdsResourceGenerator
	cache wasm.Cache
}

// Generate returns the configurations with fetched modules.
func (modules Modules) Generate(proxy *model.Proxy, watched *model.WatchedResource, request *model.PushRequest) (
	model.Resources, model.XdsLogDetails, error,
) {
	resources, details, err := modules.XdsResourceGenerator.Generate(proxy, watched, request)
	if err != nil {
		return resources, details, err
	}
	messages := make([]*anypb.Any, len(resources))
	for index, resource := range resources {
		messages[index] = resource.Resource
	}
	err = wasm.MaybeConvertWasmExtensionConfig(messages, modules.cache)
	for index, resource := range resources {
		resource.Resource = messages[index]
	}
	return resources, details, err
}

// Secrets serves proxies the secrets that they request. It trusts the identity that a proxy claims, because proxies
// have no certificates here.
type Secrets struct {
	model.XdsResourceGenerator
}

// Generate returns the secrets.
func (secrets Secrets) Generate(proxy *model.Proxy, watched *model.WatchedResource, request *model.PushRequest) (
	model.Resources, model.XdsLogDetails, error,
) {
	proxy.VerifiedIdentity = &spiffe.Identity{
		TrustDomain:    "cluster.local",
		Namespace:      proxy.ConfigNamespace,
		ServiceAccount: proxy.Metadata.ServiceAccount,
	}
	return secrets.XdsResourceGenerator.Generate(proxy, watched, request)
}
