// Command votes counts votes by candidate. It is the keyed step of an application that runs on Spark.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headrace/headrace/sdk/go/application"
)

func main() {
	application.Main(application.Step{Name: "votes", State: []string{"count", "last"}, Process: count})
}

// count counts a vote, whose key is the candidate and whose value is the voter, and emits the new total. The state of a
// candidate has the number of votes, and who voted last.
func count(vote application.Message, state *application.State, emit func([]byte)) error {
	if len(vote.Value) == 0 {
		return errors.New("a vote without a voter")
	}
	votes, _ := binary.Uvarint(state.Get("count"))
	state.Set("count", binary.AppendUvarint(nil, votes+1))
	state.Set("last", vote.Value)
	emit(fmt.Appendf(nil, "%s %d", vote.Key, votes+1))
	return nil
}
