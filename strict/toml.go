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
			return fmt.Errorf("line %d, column %d: key %q: %s", line, column, key, cause(syntax))
		}
		return fmt.Errorf("line %d, column %d: %s", line, column, cause(syntax))
	}
	return err
}

// goWords is how the decoder speaks of Go to whoever wrote a file.
var goWords = regexp.MustCompile(`cannot decode TOML (\w+) into struct field \S+ of type (\S+)`)

// cause is what the decoder says without its own name in front, and without Go's.
func cause(e *toml.DecodeError) string {
	return goWords.ReplaceAllString(strings.TrimPrefix(e.Error(), "toml: "), "$1 given, $2 wanted")
}
