package main

import (
	"google.golang.org/protobuf/types/known/anypb"

	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/spiffe"
	"istio.io/istio/pkg/wasm"
)

// Modules does to the filters' configurations what Istio's agent does beside each Envoy: it fetches modules, and hands
// over other filters for those that it cannot get.
type Modules struct {
	model.XdsResourceGenerator
	cache wasm.Cache
}

// Generate makes the configurations.
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

// Secrets gives proxies what they ask for as those who they say they are: nobody here has a certificate to prove it.
type Secrets struct {
	model.XdsResourceGenerator
}

// Generate makes the secrets.
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
