// Command kustomize prints what `kubectl kustomize FOLDER` prints, with the library that kubectl uses.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: kustomize FOLDER"))
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), os.Args[1])
	if err != nil {
		fail(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		fail(err)
	}
	os.Stdout.Write(text)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
