/** A word for what a part does, with a mark of its colour. */
export function FlowMark({ flow }: { flow: string }) {
  return (
    <>
      <span className={`dot ${flow.replace(" ", "-")}`} aria-hidden="true" />
      {flow}
    </>
  );
}
