// Command validate prints each object of a manifest on a line, with the errors with which an API server would refuse it,
// by the API server's own libraries: unknown fields, wrong values, and rules that CRDs have in CEL.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	sigsyaml "sigs.k8s.io/yaml"
)

const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

type schemas struct {
	ofKinds map[schema.GroupVersionKind]*apiextensionsv1.JSONSchemaProps
	// metadata is the schema of all objects' metadata, which CRDs do not repeat.
	metadata apiextensionsv1.JSONSchemaProps
}

func main() {
	if len(os.Args) != 4 {
		fail(errors.New("usage: validate FOLDER_OF_OPENAPI_SCHEMAS FOLDER_OF_CRDS MANIFEST"))
	}
	known := schemas{ofKinds: map[schema.GroupVersionKind]*apiextensionsv1.JSONSchemaProps{}}
	for _, source := range []struct {
		files string
		add   func([]byte) error
	}{{filepath.Join(os.Args[1], "*.json"), known.addOpenAPI}, {filepath.Join(os.Args[2], "*.yaml"), known.addCRDs}} {
		files, err := filepath.Glob(source.files)
		if err != nil || len(files) == 0 {
			fail(fmt.Errorf("%s: no schemas (%v)", source.files, err))
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err == nil {
				err = source.add(data)
			}
			if err != nil {
				fail(fmt.Errorf("%s: %w", file, err))
			}
		}
	}
	manifest, err := os.ReadFile(os.Args[3])
	if err != nil {
		fail(err)
	}
	objects, err := documents(manifest)
	if err != nil {
		fail(err)
	}
	for _, document := range objects {
		object := &unstructured.Unstructured{}
		data, err := sigsyaml.YAMLToJSONStrict(document)
		if err == nil {
			err = object.UnmarshalJSON(data)
		}
		if err != nil {
			fail(err)
		}
		refusals, err := known.refusals(object)
		if err != nil {
			fail(fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err))
		}
		fmt.Printf("%s %s: %q\n", object.GetKind(), object.GetName(), refusals)
	}
}

// documents returns the documents of a YAML file, without those that are empty.
func documents(data []byte) (found [][]byte, err error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(document)) > 0 {
			found = append(found, document)
		}
	}
}

// addOpenAPI adds the kinds of one of Kubernetes' own API groups.
func (known *schemas) addOpenAPI(data []byte) error {
	var api struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(data, &api); err != nil {
		return err
	}
	all := api.Components.Schemas
	if err := convert(structural(all, all[objectMeta]), &known.metadata); err != nil {
		return err
	}
	for _, of := range all {
		kinds, _ := of["x-kubernetes-group-version-kind"].([]any)
		properties, _ := of["properties"].(map[string]any)
		if properties["metadata"] == nil {
			continue // not an object, or one that is for all groups
		}
		for _, it := range kinds {
			var kind schema.GroupVersionKind
			if err := convert(it, &kind); err != nil {
				return err
			}
			known.ofKinds[kind] = &apiextensionsv1.JSONSchemaProps{}
			if err := convert(structural(all, of), known.ofKinds[kind]); err != nil {
				return err
			}
		}
	}
	return nil
}

// structural returns a schema without references, in the form that a CRD must have.
func structural(all map[string]map[string]any, value any) any {
	switch value := value.(type) {
	case []any:
		items := make([]any, len(value))
		for n, item := range value {
			items[n] = structural(all, item)
		}
		return items
	case map[string]any:
		if reference, is := value["$ref"].(string); is {
			return structural(all, all[filepath.Base(reference)])
		}
		if several, is := value["allOf"].([]any); is && len(several) == 1 {
			// A reference with a description or a default.
			return structural(all, several[0])
		}
		if value["format"] == "int-or-string" || value["oneOf"] != nil {
			// A number or a string, such as an amount of memory.
			return map[string]any{"x-kubernetes-int-or-string": true}
		}
		fields := make(map[string]any, len(value))
		for name, field := range value {
			fields[name] = structural(all, field)
		}
		if value["type"] == "object" && value["properties"] == nil && value["additionalProperties"] == nil {
			fields["x-kubernetes-preserve-unknown-fields"] = true
		}
		return fields
	}
	return value
}

// addCRDs adds the kinds of the CRDs in a file.
func (known *schemas) addCRDs(data []byte) error {
	all, err := documents(data)
	if err != nil {
		return err
	}
	for _, document := range all {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := sigsyaml.Unmarshal(document, &crd); err != nil {
			return err
		}
		if crd.Kind != "CustomResourceDefinition" {
			continue
		}
		for _, version := range crd.Spec.Versions {
			of := version.Schema.OpenAPIV3Schema.DeepCopy()
			of.Properties["metadata"] = known.metadata
			kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
			known.ofKinds[kind] = of
		}
	}
	return nil
}

// refusals returns the reasons to refuse an object.
func (known *schemas) refusals(object *unstructured.Unstructured) (found []string, err error) {
	of := known.ofKinds[object.GroupVersionKind()]
	if of == nil {
		return nil, fmt.Errorf("no schema for %v", object.GroupVersionKind())
	}
	internal := apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(of, &internal, nil); err != nil {
		return nil, err
	}
	structure, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object.DeepCopy().Object, structure, false, options) {
		found = append(found, "unknown field "+path)
	}
	content := object.DeepCopy().Object
	defaulting.Default(content, structure)
	errs := apivalidation.ValidateObjectMetaAccessor(object, object.GetNamespace() != "",
		apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, content, validator)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structure, content)...)
	if rules := cel.NewValidator(structure, true, celconfig.PerCallLimit); rules != nil {
		broken, _ := rules.Validate(context.Background(), nil, structure, content, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	for _, err := range errs {
		found = append(found, err.Error())
	}
	return found, nil
}

// convert copies a value to one of another type, by JSON.
func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
