package record

import "encoding/binary"

// Resealed gives every frame the checksum that its bytes have: what a fuzzer
// changes gets past it, and to what reads the content.
func Resealed(data []byte) []byte {
	out := append([]byte(nil), data...)
	for at := len(magic) + 1; at+frameHead <= len(out); {
		head := out[at : at+frameHead]
		end := uint64(at+frameHead) + uint64(binary.LittleEndian.Uint32(head[2:]))
		if end > uint64(len(out)) {
			break
		}
		binary.LittleEndian.PutUint32(head[10:], checksum(head, out[at+frameHead:end]))
		at = int(end)
	}
	return out
}
