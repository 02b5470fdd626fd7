package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Digest says what a question is about (design §7): the tool and its definition, the arguments byte for
// byte but for white space around them, the call and the request. Nothing else counts, so nothing else
// can void an answer. The fields never change: each is written with its length in eight bytes, big-endian,
// the arguments as their SHA-256.
func Digest(tool ToolName, definition string, input []byte, k CallKey, request string) string {
	sum := sha256.Sum256(trimJSON(input))
	h := sha256.New()
	var n [8]byte
	for _, field := range [][]byte{
		[]byte("toolwire.question.v1"), []byte(tool), []byte(definition), sum[:],
		[]byte(k.Session), []byte(k.Turn), []byte(k.Call), []byte(request),
	} {
		binary.BigEndian.PutUint64(n[:], uint64(len(field)))
		h.Write(n[:])
		h.Write(field)
	}
	return hex.EncodeToString(h.Sum(nil))
}
