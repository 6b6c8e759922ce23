package outputlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"codex.internal/pkg/host/process"
)

// mark begins each segment. Its last byte is the version of the format.
const mark = "codxout\x01"

// recordHead is the size of the head of a record. All numbers are little endian: 4 bytes for the
// size of the data, 1 for the stream, 3 for the seconds since the log was created, at most 2^24-1, 8 for the number, 4
// for the checksum.
const recordHead = 20

// maxSeconds is the largest number of seconds in a record: 194 days.
const maxSeconds = 1<<24 - 1

// castagnoli returns the table of the checksum. hash/crc32 computes it at the first call, because
// most servers retain no output.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// errRecord means that the bytes are not a record, or are an incomplete
// one.
var errRecord = errors.New("not a whole record")

// streamCodes are the codes of streams in records.
var streamCodes = map[process.Stream]byte{process.Stdout: 1, process.Stderr: 2, process.PTY: 3}

var streamNames = map[byte]process.Stream{1: process.Stdout, 2: process.Stderr, 3: process.PTY}

// appendRecord appends a record. data has at most MaxChunk bytes.
func appendRecord(b []byte, c Chunk) []byte {
	at := len(b)
	seconds := max(0, min(c.Elapsed/time.Second, maxSeconds))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.Data)))
	b = append(b, streamCodes[c.Stream], byte(seconds), byte(seconds>>8), byte(seconds>>16))
	b = binary.LittleEndian.AppendUint64(b, c.Seq)
	sum := crc32.Update(crc32.Checksum(b[at:], castagnoli()), castagnoli(), c.Data)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return append(b, c.Data...)
}

// recordSize returns the size of the data of a record with this head. It returns an error for an
// invalid head, so that its caller does not allocate too much memory.
func recordSize(head []byte) (int, error) {
	if len(head) < recordHead {
		return 0, errRecord
	}
	size := binary.LittleEndian.Uint32(head)
	if size == 0 || size > MaxChunk || streamNames[head[4]] == "" {
		return 0, errRecord
	}
	return int(size), nil
}

// parseRecord parses the record at the beginning of b. The chunk's data aliases b.
func parseRecord(b []byte) (Chunk, error) {
	size, err := recordSize(b)
	if err != nil || len(b) < recordHead+size {
		return Chunk{}, errRecord
	}
	data := b[recordHead : recordHead+size]
	sum := crc32.Update(crc32.Checksum(b[:recordHead-4], castagnoli()), castagnoli(), data)
	if binary.LittleEndian.Uint32(b[recordHead-4:]) != sum {
		return Chunk{}, errRecord
	}
	seq := binary.LittleEndian.Uint64(b[8:])
	if seq == 0 {
		return Chunk{}, errRecord
	}
	elapsed := time.Duration(b[5]) | time.Duration(b[6])<<8 | time.Duration(b[7])<<16
	return Chunk{Seq: seq, Stream: streamNames[b[4]], Elapsed: elapsed * time.Second, Data: data}, nil
}
