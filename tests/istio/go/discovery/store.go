package main

import (
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config"
)

// Store holds the Istio resources that are served. Istio's store also lists resources that it derives from these.
type Store struct {
	configs model.ConfigStoreController
	files   []config.Config
}

// Replace replaces all resources from files. Unchanged resources keep their version.
func (store *Store) Replace(wanted []config.Config) error {
	kept := map[string]bool{}
	for _, resource := range wanted {
		kept[resource.Key()] = true
		if err := store.put(resource); err != nil {
			return err
		}
	}
	for _, resource := range store.files {
		if kept[resource.Key()] {
			continue
		}
		if err := store.configs.Delete(resource.GroupVersionKind, resource.Name, resource.Namespace, nil); err != nil {
			return err
		}
	}
	store.files = wanted
	return nil
}

func (store *Store) put(wanted config.Config) error {
	found := store.configs.Get(wanted.GroupVersionKind, wanted.Name, wanted.Namespace)
	if found == nil {
		_, err := store.configs.Create(wanted)
		return err
	}
	// Files do not have these fields, and Istio orders patches by age.
	wanted.ResourceVersion, wanted.CreationTimestamp = found.ResourceVersion, found.CreationTimestamp
	if found.Equals(&wanted) {
		return nil
	}
	_, err := store.configs.Update(wanted)
	return err
}
