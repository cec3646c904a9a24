package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// bom may stand before a text of Windows' editors.
var bom = []byte("\uFEFF")

// JSON reads one JSON value into a struct by its json tags. Keys count to the
// letter and once each, and nothing may follow the value.
func JSON(text []byte, into any) error {
	text = bytes.TrimPrefix(text, bom)
	var tree any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return fmt.Errorf("not JSON: %w", placed(err, text))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("not one JSON value: something follows it at byte %d", dec.InputOffset())
	}
	if err := once(json.NewDecoder(bytes.NewReader(text)), nil); err != nil {
		return err
	}
	w := walk{root: reflect.TypeOf(into)}
	w.visit(tree, w.root, nil)
	if len(w.unknown) > 0 {
		return &Error{Keys: w.unknown}
	}
	err := json.Unmarshal(text, into)
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		found, _, _ := strings.Cut(kind.Value, " ") // "number -1"
		where := "it"
		if kind.Field != "" {
			where = fmt.Sprintf("key %q", kind.Field)
		}
		return fmt.Errorf("%s: %s is not %s", where, article(found)+kind.Value, wanted(kind.Type))
	}
	return err
}

// once reads a value, whose objects may have no key twice: one of two would be
// dropped without a word.
func once(dec *json.Decoder, path []string) error {
	open, err := dec.Token()
	if err != nil || open != json.Delim('{') && open != json.Delim('[') {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		below := path
		if open == json.Delim('{') {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			key := fmt.Sprint(name)
			below = append(path[:len(path):len(path)], key)
			if seen[key] {
				return fmt.Errorf("key %q is given twice", strings.Join(below, "."))
			}
			seen[key] = true
		}
		if err := once(dec, below); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// article goes before what JSON calls a value.
func article(kind string) string {
	switch kind {
	case "array", "object":
		return "an "
	case "bool", "string":
		return "a "
	}
	return "the "
}

// wanted is a Go type in words of JSON.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an object"
}

// placed adds line and column to a syntax error.
func placed(err error, text []byte) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("it ends too early")
		}
		return err
	}
	before := text[:min(int(syntax.Offset), len(text))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

// walk looks for keys that a type does not have.
type walk struct {
	root    reflect.Type
	unknown []Unknown
}

func (w *walk) visit(tree any, t reflect.Type, path []string) {
	switch node := tree.(type) {
	case []any:
		if elem, ok := within(t); ok {
			for _, n := range node {
				w.visit(n, elem, path)
			}
		}
	case map[string]any:
		names := make([]string, 0, len(node))
		for name := range node {
			names = append(names, name)
		}
		slices.Sort(names)
		have, ok := fields(t, "json")
		if !ok {
			if elem, ok := within(t); ok {
				for _, name := range names {
					w.visit(node[name], elem, append(path[:len(path):len(path)], name))
				}
			}
			return
		}
		for _, name := range names {
			below := append(path[:len(path):len(path)], name)
			if inner, ok := have[name]; ok {
				w.visit(node[name], inner, below)
				continue
			}
			w.unknown = append(w.unknown, Unknown{Path: strings.Join(below, "."), Nearest: meant(w.root, below, "json")})
		}
	}
}
