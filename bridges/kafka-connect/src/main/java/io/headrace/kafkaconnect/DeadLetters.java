package io.headrace.kafkaconnect;

import io.headrace.sdk.Header;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A folder of dead letters, which {@code headrace dead-letters} lists and replays. */
public final class DeadLetters {
  private static final DateTimeFormatter STAMP =
      DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss.SSSSSS'Z'").withZone(ZoneOffset.UTC);

  private final Path folder;
  private final String source;
  private FileChannel file;
  private Path path;

  DeadLetters(Path folder, String source) {
    this.folder = folder;
    this.source = source;
  }

  /** Writes one, durably. What was written of one that fails is removed. */
  synchronized void write(BadRecord bad, String reason) throws IOException {
    ByteBuffer line = ByteBuffer.wrap(line(bad, reason));
    if (file == null || !Files.exists(path)) {
      open();
    }
    long whole = file.position();
    try {
      while (line.hasRemaining()) {
        file.write(line);
      }
      file.force(false);
    } catch (IOException error) {
      file.truncate(whole);
      throw error;
    }
    if (!Files.exists(path)) { // discarded meanwhile
      file.close();
      file = null;
      write(bad, reason);
    }
  }

  private void open() throws IOException {
    Files.createDirectories(folder);
    if (file != null) {
      file.close();
    }
    String name =
        "%s-%s-%d.jsonl"
            .formatted(source, STAMP.format(Instant.now()), ProcessHandle.current().pid());
    path = folder.resolve(name);
    file = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
    try (FileChannel names = FileChannel.open(folder)) {
      names.force(true);
    }
  }

  private byte[] line(BadRecord bad, String reason) {
    Map<String, Object> document = new LinkedHashMap<>();
    if (bad.key() != null) {
      document.putAll(member("key", bad.key()));
    }
    document.putAll(member("value", bad.value()));
    if (bad.micros() != null) {
      document.put("event_time", bad.micros());
    }
    List<Object> headers = new ArrayList<>();
    for (Header header : bad.headers()) {
      headers.add(header(header.name(), header.value()));
    }
    Map<String, String> said = new LinkedHashMap<>();
    said.put("source", source);
    said.put("stream", source + "/0");
    said.put("reason", reason);
    said.forEach(
        (name, text) ->
            headers.add(header("headrace-" + name, text.getBytes(StandardCharsets.UTF_8))));
    document.put("headers", headers);
    String json = new String(Offsets.json(document), StandardCharsets.UTF_8);
    return (json + "\n").getBytes(StandardCharsets.UTF_8);
  }

  private static Map<String, Object> header(String name, byte[] value) {
    Map<String, Object> header = new LinkedHashMap<>();
    header.put("name", name);
    header.putAll(member("value", value));
    return header;
  }

  /** Bytes as a member of an object: as text if they are UTF-8, or else in base64. */
  private static Map<String, Object> member(String name, byte[] bytes) {
    Map<String, Object> member = new LinkedHashMap<>();
    if (bytes == null) {
      member.put(name, null);
      return member;
    }
    try {
      member.put(
          name, StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
    } catch (CharacterCodingException error) {
      member.put(name + "_base64", Base64.getEncoder().encodeToString(bytes));
    }
    return member;
  }
}
