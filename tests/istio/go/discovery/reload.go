package main

import (
	"net/http"
	"sync"
)

// Reload handles requests to read the files again.
type Reload struct {
	files      Files
	store      Store
	kubernetes Kubernetes
	mutex      sync.Mutex
}

func (reload *Reload) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	reload.mutex.Lock()
	defer reload.mutex.Unlock()
	resources, err := reload.files.Read()
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	if err := reload.store.Replace(resources.istio); err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := reload.kubernetes.Replace(resources.kubernetes); err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
	}
}
