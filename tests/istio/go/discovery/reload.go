package main

import (
	"net/http"
	"sync"
)

// Reload answers requests to read the Istio resources again.
type Reload struct {
	files Files
	store Store
	mutex sync.Mutex
}

func (reload *Reload) ServeHTTP(response http.ResponseWriter, _ *http.Request) {
	reload.mutex.Lock()
	defer reload.mutex.Unlock()
	configs, err := reload.files.Configs()
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	if err := reload.store.Replace(configs); err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
	}
}
