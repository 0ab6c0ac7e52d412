package io.headrace.sdk.internal.source;

/**
 * What bounds the frames of a stream.
 *
 * @param stream the name of the stream
 * @param streamId its id in the session
 * @param maxFrameBytes the gateway's limit
 * @param maxCursorBytes the largest cursor that the gateway accepts
 * @param targetBytes the size at which a frame is sent without waiting for more
 * @param targetMessages the number of messages at which it is
 */
record StreamLimits(
    String stream,
    int streamId,
    long maxFrameBytes,
    int maxCursorBytes,
    long targetBytes,
    int targetMessages) {}
