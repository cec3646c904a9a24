package strict

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// TOML reads text into a struct by its toml tags. Keys below the tables in free
// may be unknown: they are returned, as Unknown, and not an error.
func TOML(text []byte, into any, free ...string) ([]Unknown, error) {
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(into)
	var missing *toml.StrictMissingError
	var syntax *toml.DecodeError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &missing):
	case errors.As(err, &syntax):
		line, column := syntax.Position()
		if key := strings.Join(syntax.Key(), "."); key != "" {
			return nil, fmt.Errorf("line %d, column %d: key %q: %s", line, column, key, cause(syntax))
		}
		return nil, fmt.Errorf("line %d, column %d: %s", line, column, cause(syntax))
	default:
		return nil, err
	}
	var refused, let []Unknown
	for _, e := range missing.Errors {
		line, _ := e.Position()
		path := e.Key()
		u := Unknown{Path: strings.Join(path, "."), Line: line, Nearest: meant(reflect.TypeOf(into), path, "toml")}
		if slices.Contains(free, path[0]) {
			let = append(let, u)
		} else {
			refused = append(refused, u)
		}
	}
	if len(refused) > 0 {
		return let, &Error{Keys: refused}
	}
	return let, nil
}

// cause is what the decoder says without its own name in front.
func cause(e *toml.DecodeError) string { return strings.TrimPrefix(e.Error(), "toml: ") }
