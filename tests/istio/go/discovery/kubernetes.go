package main

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/testing"

	"istio.io/istio/pkg/kube"
)

// Kubernetes holds the Kubernetes objects that are served.
type Kubernetes struct {
	tracker testing.ObjectTracker
	files   map[place]runtime.Object
}

// A place identifies an object.
type place struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// objects reads Kubernetes objects.
func objects(text string) (map[place]runtime.Object, error) {
	found := map[place]runtime.Object{}
	for _, document := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		object, kind, err := kube.IstioCodec.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			return nil, err
		}
		named, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		resource, _ := meta.UnsafeGuessKindToResource(*kind)
		found[place{resource, named.GetNamespace(), named.GetName()}] = object
	}
	return found, nil
}

// Replace replaces all objects from files.
func (kubernetes *Kubernetes) Replace(wanted map[place]runtime.Object) error {
	for place, object := range wanted {
		if err := kubernetes.put(place, object); err != nil {
			return err
		}
	}
	for place := range kubernetes.files {
		if wanted[place] != nil {
			continue
		}
		if err := kubernetes.tracker.Delete(place.resource, place.namespace, place.name); err != nil {
			return err
		}
	}
	kubernetes.files = wanted
	return nil
}

func (kubernetes *Kubernetes) put(place place, object runtime.Object) error {
	before := kubernetes.files[place]
	switch {
	case before == nil:
		return kubernetes.tracker.Create(place.resource, object.DeepCopyObject(), place.namespace)
	case reflect.DeepEqual(before, object):
		return nil
	default:
		return kubernetes.tracker.Update(place.resource, object.DeepCopyObject(), place.namespace)
	}
}
