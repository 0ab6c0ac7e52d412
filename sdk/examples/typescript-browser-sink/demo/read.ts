// Prints what a browser that connects now gets, a line of JSON for each event, until it has caught up.
//
//   node dist/demo/read.js URL

async function* events(url: string): AsyncGenerator<string> {
  const response = await fetch(new URL("events", url));
  let rest = "";
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + chunk).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      if (block.startsWith("event: caught-up")) return;
      const data = /^data: (.+)$/m.exec(block)?.[1];
      if (data !== undefined) yield data;
    }
  }
}

const [url = "http://127.0.0.1:8000/"] = process.argv.slice(2);
for await (const data of events(url)) process.stdout.write(`${data}\n`);
