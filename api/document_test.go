package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// document is the OpenAPI document, read as any client would.
type document struct {
	paths   map[string]map[string]any
	schemas map[string]any
	tried   map[string]bool
}

func readDocument(t *testing.T) *document {
	rec := httptest.NewRecorder()
	newWorld(t).api.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/api/v2/openapi.json", nil))
	var doc struct {
		Paths      map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Paths) < 40 {
		t.Fatalf("%d paths", len(doc.Paths))
	}
	return &document{paths: doc.Paths, schemas: doc.Components.Schemas, tried: map[string]bool{}}
}

var braces = regexp.MustCompile(`\{\w+\}`)

// check holds an answer against what the document says of it.
func (d *document) check(t *testing.T, method, target string, rec *httptest.ResponseRecorder) {
	t.Helper()
	path, _, _ := strings.Cut(target, "?")
	for _, p := range slices.Sorted(maps.Keys(d.paths)) {
		if !regexp.MustCompile("^" + braces.ReplaceAllString(p, `[^/]+`) + "$").MatchString(path) {
			continue
		}
		op, ok := d.paths[p][strings.ToLower(method)].(map[string]any)
		if !ok {
			continue
		}
		d.tried[method+" "+p] = true
		responses := op["responses"].(map[string]any)
		res, ok := responses[strconv.Itoa(rec.Code)]
		if !ok {
			if rec.Code < 400 {
				t.Errorf("%s %s: the document does not know status %d", method, p, rec.Code)
			}
			res = responses["default"]
		}
		content := res.(map[string]any)["content"].(map[string]any)
		media, ok := content["application/json"].(map[string]any)
		if !ok {
			return
		}
		var body any
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			t.Errorf("%s %s: %v", method, p, err)
			return
		}
		if err := d.fits(body, media["schema"].(map[string]any)); err != nil {
			t.Errorf("%s %s: %v", method, p, err)
		}
		return
	}
}

// untried are the operations that nothing was held against.
func (d *document) untried() []string {
	var out []string
	for p, methods := range d.paths {
		for m := range methods {
			if op := strings.ToUpper(m) + " " + p; !d.tried[op] {
				out = append(out, op)
			}
		}
	}
	slices.Sort(out)
	return out
}

// fits tells whether a value is one of a schema.
func (d *document) fits(v any, schema map[string]any) error {
	if ref, ok := schema["$ref"].(string); ok {
		named, ok := d.schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
		if !ok {
			return fmt.Errorf("%s is not in the document", ref)
		}
		return d.fits(v, named)
	}
	if choices, ok := schema["anyOf"].([]any); ok {
		var last error
		for _, s := range choices {
			if last = d.fits(v, s.(map[string]any)); last == nil {
				return nil
			}
		}
		return last
	}
	if !isOf(v, schema["type"]) {
		return fmt.Errorf("%v is no %v", v, schema["type"])
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := d.fits(e, schema["items"].(map[string]any)); err != nil {
				return err
			}
		}
	case map[string]any:
		return d.fitsObject(v, schema)
	}
	return nil
}

func (d *document) fitsObject(v, schema map[string]any) error {
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil {
		return nil // an object of any keys
	}
	for name, e := range v {
		p, ok := properties[name].(map[string]any)
		if !ok {
			return fmt.Errorf("key %q is not in the document", name)
		}
		if err := d.fits(e, p); err != nil {
			return fmt.Errorf("key %q: %w", name, err)
		}
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("key %q is missing", name)
		}
	}
	return nil
}

func isOf(v, want any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(w any) bool { return isOf(v, w) })
	}
	switch v := v.(type) {
	case nil:
		return want == "null"
	case bool:
		return want == "boolean"
	case string:
		return want == "string"
	case float64:
		return want == "integer" && v == float64(int64(v))
	case []any:
		return want == "array"
	}
	return want == "object"
}
