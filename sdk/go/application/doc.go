// Package application is for writing keyed steps of applications of Headrace in Go. Spark runs the application, stores its
// states, and makes its results exactly-once; a worker of it starts the program, and sends it messages with their states.
//
// A [Step] is a function that gets a message and the state of its key, which it may change, and emits results:
//
//	func count(message application.Message, state *application.State, emit func([]byte)) error {
//		votes, _ := binary.Uvarint(state.Get("count"))
//		state.Set("count", binary.AppendUvarint(nil, votes+1))
//		emit(fmt.Appendf(nil, "%s %d", message.Key, votes+1))
//		return nil
//	}
//
//	func main() {
//		application.Main(application.Step{Name: "votes", State: []string{"count"}, Process: count})
//	}
//
// The application names the program in Python:
//
//	app = Pipeline("votes")
//	app.source("votes/*").key_by().stateful_program(["./votes"], state=["count"], name="votes").sink("totals")
//
// A function must have no side effects, and keep nothing outside of the state: it may be called again for the same message, in
// another process.
package application
