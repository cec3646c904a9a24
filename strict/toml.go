package strict

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// TOML reads text into a struct by its toml tags. Below a map every key is known.
func TOML(text []byte, into any) error {
	text = bytes.TrimPrefix(text, bom)
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(into)
	var missing *toml.StrictMissingError
	var syntax *toml.DecodeError
	switch {
	case errors.As(err, &missing):
		out := &Error{}
		for _, e := range missing.Errors {
			line, _ := e.Position()
			path := e.Key()
			out.Keys = append(out.Keys, Unknown{Path: strings.Join(path, "."), Line: line, Nearest: meant(reflect.TypeOf(into), path, "toml")})
		}
		return out
	case errors.As(err, &syntax):
		line, column := syntax.Position()
		if key := strings.Join(syntax.Key(), "."); key != "" {
			return fmt.Errorf("line %d, column %d: key %q: %s", line, column, inner(reflect.TypeOf(into), syntax), cause(syntax))
		}
		return fmt.Errorf("line %d, column %d: %s", line, column, cause(syntax))
	}
	return err
}

// goWords is how the decoder speaks of Go to whoever wrote a file.
var goWords = regexp.MustCompile(`cannot decode TOML (\w+) into struct field (\S+) of type (\S+)`)

// tomlWords are Go's types in words of TOML; others are what they are.
var tomlWords = map[string]string{"[]string": "a list of strings", "string": "a string", "bool": "true or false", "int": "a whole number",
	"int64": "a whole number", "uint": "a whole number from 0", "uint64": "a whole number from 0", "float64": "a number"}

// inner is the key that an error is about. Of tables in a list the decoder names only
// the list, and the field in Go's words.
func inner(root reflect.Type, e *toml.DecodeError) string {
	key := strings.Join(e.Key(), ".")
	m := goWords.FindStringSubmatch(e.Error())
	t, ok := at(root, e.Key(), "toml")
	if m == nil || !ok || t.Kind() != reflect.Struct {
		return key
	}
	if f, ok := t.FieldByName(m[2][strings.LastIndexByte(m[2], '.')+1:]); ok {
		return key + "." + tagged(f, "toml")
	}
	return key
}

// cause is what the decoder says without its own name in front, and without Go's.
func cause(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	m := goWords.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	wanted := m[3]
	if words := tomlWords[wanted]; words != "" {
		wanted = words
	}
	return strings.Replace(text, m[0], m[1]+" given, "+wanted+" wanted", 1)
}
