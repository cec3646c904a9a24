package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// OpenAPI is the document of what this API serves, made from the table that
// serves it.
func (a *API) OpenAPI() []byte {
	d := describer{schemas: map[string]any{}}
	paths := map[string]map[string]any{}
	for _, r := range a.routes {
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][strings.ToLower(r.method)] = d.operation(r)
	}
	doc := map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title":       "Sluice",
			"version":     "2",
			"description": "The paths and forms of TiCDC's API, version 2, and of version 1 where tools still use it.",
		},
		"paths": paths,
		"components": map[string]any{
			"schemas":         d.schemas,
			"securitySchemes": map[string]any{"user": map[string]any{"type": "http", "scheme": "basic"}},
		},
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return []byte(`{}`) // maps, strings and numbers are always JSON: a test reads the document
	}
	return append(text, '\n')
}

var inBraces = regexp.MustCompile(`\{(\w+)\}`)

// describer collects the schemas that operations speak of.
type describer struct{ schemas map[string]any }

func (d *describer) operation(r route) map[string]any {
	op := map[string]any{"summary": r.summary}
	var params []any
	for _, m := range inBraces.FindAllStringSubmatch(r.path, -1) {
		params = append(params, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, p := range r.query {
		params = append(params, map[string]any{"name": p.name, "in": "query", "description": p.meaning, "schema": map[string]any{"type": "string"}})
	}
	if strings.HasPrefix(r.path, "/api/v2/") && (r.owner || r.named) {
		params = append(params, map[string]any{"name": "keyspace", "in": "query",
			"description": "the keyspace, or namespace, of the changefeed; default where it is left out", "schema": map[string]any{"type": "string"}})
	}
	if params != nil {
		op["parameters"] = params
	}
	if r.in != nil {
		op["requestBody"] = map[string]any{"required": !r.empty, "content": d.content(reflect.TypeOf(r.in))}
	}
	if r.guarded {
		op["security"] = []any{map[string]any{"user": []string{}}}
	}
	responses := map[string]any{"default": map[string]any{
		"description": "what went wrong, and what to do about it", "content": d.content(reflect.TypeFor[ErrorBody]())}}
	if r.lacks != "" {
		op["description"] = r.lacks
		op["deprecated"] = true
	} else {
		status := r.status
		if status == 0 {
			status = http.StatusOK
		}
		responses[strconv.Itoa(status)] = map[string]any{"description": "done", "content": d.content(reflect.TypeOf(r.out))}
	}
	op["responses"] = responses
	return op
}

func (d *describer) content(t reflect.Type) map[string]any {
	if t == reflect.TypeFor[document]() {
		return map[string]any{"*/*": map[string]any{}}
	}
	return map[string]any{"application/json": map[string]any{"schema": d.schema(t)}}
}

// schema is a type's, by reference where it has a name.
func (d *describer) schema(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[Time]():
		return map[string]any{"type": []string{"string", "null"}, "description": "2006-01-02 15:04:05.000, UTC"}
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{"type": []string{"object", "null"}, "description": "keys as in a changefeed's file, with _ for -"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := d.schema(t.Elem())
		return map[string]any{"anyOf": []any{inner, map[string]any{"type": "null"}}}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Uint64, reflect.Uint32, reflect.Uint:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	}
	name := schemaName(t)
	if _, ok := d.schemas[name]; !ok {
		d.schemas[name] = nil // a type within itself ends here
		d.schemas[name] = d.object(t)
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// schemaName is a type's name; that of a list holds what it lists.
func schemaName(t reflect.Type) string {
	name, of, ok := strings.Cut(t.Name(), "[")
	if !ok {
		return name
	}
	return name + "Of" + strings.TrimSuffix(of[strings.LastIndexByte(of, '.')+1:], "]")
}

// object is a struct's schema. What may be left out is not required.
func (d *describer) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for f := range t.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-": // not on the wire
				continue
			case f.Anonymous && name == "":
				add(f.Type)
				continue
			}
			properties[name] = d.schema(f.Type)
			if !strings.Contains(options, "omitempty") {
				required = append(required, name)
			}
		}
	}
	add(t)
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if isAnswer(t) && len(required) > 0 {
		out["required"] = required
	}
	return out
}

// isAnswer tells answers, whose fields are all there, from requests, of which
// every field may be left out.
func isAnswer(t reflect.Type) bool {
	for _, request := range []reflect.Type{
		reflect.TypeFor[CreateFeed](), reflect.TypeFor[UpdateFeed](), reflect.TypeFor[ResumeFeed](), reflect.TypeFor[PDConfig](),
		reflect.TypeFor[ResolveLock](), reflect.TypeFor[FirstCreate](), reflect.TypeFor[FirstUpdate](),
	} {
		if t == request {
			return false
		}
	}
	return true
}
