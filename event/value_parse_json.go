package event

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ParseJSON is the stored form of a JSON text, as TiDB makes it: keys in byte
// order and once each (the last one wins), numbers without point and exponent
// as integers where they fit 64 bits, all other numbers as doubles.
func ParseJSON(text string) ([]byte, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("json: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("json: something stands after the document")
	}
	kind, payload, err := jsonPayload([]byte{0}, doc)
	if err != nil {
		return nil, err
	}
	payload[0] = kind
	return payload, nil
}

// jsonPayload appends the payload of a value and tells its type.
func jsonPayload(dst []byte, v any) (kind byte, _ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return jsonLiteral, append(dst, jsonNull), nil
	case bool:
		if v {
			return jsonLiteral, append(dst, jsonTrue), nil
		}
		return jsonLiteral, append(dst, jsonFalse), nil
	case json.Number:
		return jsonNumber(dst, string(v))
	case string:
		dst = binary.AppendUvarint(dst, uint64(len(v)))
		return jsonString, append(dst, v...), nil
	case []any:
		dst, err = jsonMembers(dst, nil, v)
		return jsonArray, dst, err
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		values := make([]any, len(keys))
		for i, k := range keys {
			if len(k) > math.MaxUint16 {
				return 0, nil, fmt.Errorf("json: a key of %d bytes, the longest has %d", len(k), math.MaxUint16)
			}
			values[i] = v[k]
		}
		dst, err = jsonMembers(dst, keys, values)
		return jsonObject, dst, err
	}
	return 0, nil, fmt.Errorf("json: %T is no JSON value", v)
}

func jsonNumber(dst []byte, text string) (byte, []byte, error) {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return jsonInt, binary.LittleEndian.AppendUint64(dst, uint64(i)), nil
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return jsonUint, binary.LittleEndian.AppendUint64(dst, u), nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, nil, fmt.Errorf("json: %w", err)
	}
	return jsonDouble, binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), nil
}

// jsonMembers appends an object (with keys) or an array (without).
func jsonMembers(dst []byte, keys []string, values []any) ([]byte, error) {
	start := len(dst)
	head := jsonHeader + len(keys)*jsonKeyEntry + len(values)*jsonValueEntry
	dst = append(dst, make([]byte, head)...)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(values)))
	for i, k := range keys {
		at := start + jsonHeader + i*jsonKeyEntry
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-start))
		binary.LittleEndian.PutUint16(dst[at+4:], uint16(len(k)))
		dst = append(dst, k...)
	}
	for i, v := range values {
		offset := len(dst) - start
		kind, grown, err := jsonPayload(dst, v)
		if err != nil {
			return nil, err
		}
		dst = grown
		at := start + head - (len(values)-i)*jsonValueEntry
		dst[at] = kind
		if kind == jsonLiteral { // moves into its entry
			dst[at+1] = dst[start+offset]
			dst = dst[:start+offset]
			continue
		}
		binary.LittleEndian.PutUint32(dst[at+1:], uint32(offset))
	}
	if size := len(dst) - start; size > math.MaxInt32 {
		return nil, fmt.Errorf("json: a container of %d bytes", size)
	}
	binary.LittleEndian.PutUint32(dst[start+4:], uint32(len(dst)-start))
	return dst, nil
}
