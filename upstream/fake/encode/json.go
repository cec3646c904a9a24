package encode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The type bytes of TiDB's binary JSON that a document as text can give rise
// to: dates, times and opaque values have no text form of their own.
const (
	jsonObject  = 0x01
	jsonArray   = 0x03
	jsonLiteral = 0x04
	jsonInt     = 0x09
	jsonUint    = 0x0A
	jsonDouble  = 0x0B
	jsonString  = 0x0C
)

// The payloads of a literal.
const (
	literalNull  = 0x00
	literalTrue  = 0x01
	literalFalse = 0x02
)

// The sizes of what stands in front of an object's or an array's members.
const (
	containerHead = 8 // count and total size
	keyEntrySize  = 6 // offset, length
	valueEntry    = 5 // type, offset or literal
)

// appendJSON appends a document in TiDB's binary form: type byte, payload.
func appendJSON(dst []byte, text string) ([]byte, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("JSON: more than one document")
	}
	kind, payload, err := jsonPayload(doc)
	if err != nil {
		return nil, err
	}
	return append(append(dst, kind), payload...), nil
}

func jsonPayload(doc any) (kind byte, payload []byte, err error) {
	switch doc := doc.(type) {
	case nil:
		return jsonLiteral, []byte{literalNull}, nil
	case bool:
		if doc {
			return jsonLiteral, []byte{literalTrue}, nil
		}
		return jsonLiteral, []byte{literalFalse}, nil
	case string:
		return jsonString, append(binary.AppendUvarint(nil, uint64(len(doc))), doc...), nil
	case json.Number:
		return jsonNumber(string(doc))
	case []any:
		payload, err = jsonContainer(nil, doc)
		return jsonArray, payload, err
	case map[string]any:
		keys, values := sortedMembers(doc)
		payload, err = jsonContainer(keys, values)
		return jsonObject, payload, err
	}
	return 0, nil, fmt.Errorf("JSON: a %T", doc)
}

// jsonNumber keeps whole numbers whole; one with a point or an exponent, or too
// large for 64 bits, is a double.
func jsonNumber(text string) (byte, []byte, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return jsonInt, binary.LittleEndian.AppendUint64(nil, uint64(i)), nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return jsonUint, binary.LittleEndian.AppendUint64(nil, u), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, nil, fmt.Errorf("JSON: %w", err)
	}
	return jsonDouble, binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)), nil
}

// sortedMembers takes an object apart in the order of its keys' bytes.
func sortedMembers(object map[string]any) ([]string, []any) {
	keys := make([]string, 0, len(object))
	for k := range object {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	values := make([]any, len(keys))
	for i, k := range keys {
		values[i] = object[k]
	}
	return keys, values
}

// jsonContainer is the payload of an array, or of an object where there is a
// key for every value: heads, then keys, then values. Offsets count from the
// payload's start; a literal stands in its entry itself.
func jsonContainer(keys []string, values []any) ([]byte, error) {
	var heads, entries, tail []byte
	at := containerHead + len(keys)*keyEntrySize + len(values)*valueEntry
	for _, k := range keys {
		if len(k) > math.MaxUint16 {
			return nil, fmt.Errorf("JSON: a key of %d bytes", len(k))
		}
		heads = binary.LittleEndian.AppendUint32(heads, uint32(at+len(tail)))
		heads = binary.LittleEndian.AppendUint16(heads, uint16(len(k)))
		tail = append(tail, k...)
	}
	for _, v := range values {
		kind, payload, err := jsonPayload(v)
		if err != nil {
			return nil, err
		}
		entries = append(entries, kind)
		if kind == jsonLiteral {
			entries = binary.LittleEndian.AppendUint32(entries, uint32(payload[0]))
			continue
		}
		entries = binary.LittleEndian.AppendUint32(entries, uint32(at+len(tail)))
		tail = append(tail, payload...)
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(values)))
	out = binary.LittleEndian.AppendUint32(out, uint32(at+len(tail)))
	return bytes.Join([][]byte{out, heads, entries, tail}, nil), nil
}
