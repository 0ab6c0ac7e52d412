package application

import (
	"encoding/binary"
	"fmt"
	"math"
)

// nullLength stands for null in a column of lengths.
const nullLength = math.MaxUint32

// column joins values, and their lengths as little-endian u32.
type column struct {
	data, lengths []byte
}

// add appends a value; nil is null.
func (c *column) add(value []byte) {
	if value == nil {
		c.lengths = binary.LittleEndian.AppendUint32(c.lengths, nullLength)
		return
	}
	c.data = append(c.data, value...)
	c.lengths = binary.LittleEndian.AppendUint32(c.lengths, uint32(len(value)))
}

// cut drops all entries from an index and a byte on.
func (c *column) cut(entries, size int) {
	c.lengths, c.data = c.lengths[:4*entries], c.data[:size]
}

// len returns the number of entries.
func (c *column) len() int {
	return len(c.lengths) / 4
}

// split returns the values of a column, which has a fixed number of entries. They share its memory.
func split(name string, data, lengths []byte, count int) ([][]byte, error) {
	if len(lengths) != 4*count {
		return nil, fmt.Errorf("the lengths of %s: %d bytes expected, %d arrived", name, 4*count, len(lengths))
	}
	values, at := make([][]byte, count), 0
	for index := range values {
		length := binary.LittleEndian.Uint32(lengths[4*index:])
		if length == nullLength {
			continue
		}
		end := at + int(length)
		if end > len(data) {
			return nil, fmt.Errorf("the lengths of %s add up to more than the size of the column, %d", name, len(data))
		}
		values[index], at = data[at:end:end], end
	}
	if at != len(data) {
		return nil, fmt.Errorf("the lengths of %s add up to %d, and the size of the column is %d", name, at, len(data))
	}
	return values, nil
}
