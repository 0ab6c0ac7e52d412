package io.headrace.examples;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.headrace.sdk.Connector;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Recovered;
import io.headrace.sdk.sink.RowStream;
import io.headrace.sdk.sink.Rows;
import io.headrace.sdk.sink.Transaction;
import io.headrace.sdk.sink.TwoPhaseSink;
import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;

/**
 * Writes one file of lines for each batch, exactly once: {@code visible/PIPELINE/BATCH}.
 *
 * <p>Parts are staged in {@code staged/PIPELINE/BATCH}. The file {@code prepared} beside them is
 * the vote. Renaming the file of the batch to its name in {@code visible} is the commit.
 */
public final class FileSink implements TwoPhaseSink {
  private static final String VOTE = "prepared";
  private static final int MAX_NAME = 200;

  private final Path staged;
  private final Path visible;
  private final Path names;

  FileSink(Path folder) throws IOException {
    staged = Files.createDirectories(folder.resolve("staged"));
    visible = Files.createDirectories(folder.resolve("visible"));
    names = Files.createDirectories(folder.resolve("names"));
  }

  @Override
  public String name() {
    return "files";
  }

  @Override
  public Outcomes stage(Part part, RowStream stream) throws IOException {
    Files.createDirectories(folder(part.transaction()));
    Outcomes outcomes = Outcomes.ofEach();
    try (FileOutputStream file = new FileOutputStream(file(part).toFile());
        OutputStream lines = new BufferedOutputStream(file)) {
      for (Rows rows : stream) {
        for (var row : rows) {
          if (row.value() == null) {
            outcomes.refused("a row without a value is no line");
            continue;
          }
          lines.write(row.value());
          lines.write('\n');
          outcomes.written();
        }
      }
      lines.flush();
      file.getFD().sync();
    }
    sync(folder(part.transaction()));
    return outcomes;
  }

  @Override
  public void drop(Part part) throws IOException {
    Files.deleteIfExists(file(part));
  }

  @Override
  public void prepare(Transaction transaction, List<Part> parts) throws IOException {
    Path folder = Files.createDirectories(folder(transaction));
    List<Path> counting = new ArrayList<>();
    for (Part part : parts) {
      counting.add(file(part));
    }
    for (Path file : list(folder)) {
      if (!counting.contains(file)) {
        Files.delete(file);
      }
    }
    for (Path file : counting) {
      if (Files.notExists(file)) {
        throw new NoSuchFileException(file + " is not staged");
      }
    }
    Files.createFile(folder.resolve(VOTE));
    sync(folder);
    sync(staged);
  }

  @Override
  public void commit(Transaction transaction) throws IOException {
    Path target = target(transaction);
    if (Files.notExists(target)) {
      Path folder = folder(transaction);
      if (Files.notExists(folder.resolve(VOTE))) {
        throw new NoSuchFileException(transaction + " is not prepared in " + folder);
      }
      Path whole = folder.resolve("whole");
      try (FileOutputStream file = new FileOutputStream(whole.toFile())) {
        for (Part part : parts(folder)) {
          Files.copy(file(part), file);
        }
        file.getFD().sync();
      }
      Files.createDirectories(target.getParent());
      Files.move(whole, target, StandardCopyOption.ATOMIC_MOVE);
      sync(target.getParent());
      sync(visible);
    }
    abort(transaction);
  }

  @Override
  public void abort(Transaction transaction) throws IOException {
    Path folder = folder(transaction);
    if (Files.exists(folder)) {
      // The vote goes first: a crash must not leave it without its parts.
      Files.deleteIfExists(folder.resolve(VOTE));
      sync(folder);
      for (Path file : list(folder)) {
        Files.delete(file);
      }
      Files.delete(folder);
    }
  }

  @Override
  public Recovered recover() throws IOException {
    List<Part> parts = new ArrayList<>();
    List<Transaction> prepared = new ArrayList<>();
    List<Transaction> committed = new ArrayList<>();
    for (Path pipeline : list(staged)) {
      for (Path folder : list(pipeline)) {
        Transaction transaction = transaction(folder);
        if (Files.exists(target(transaction))) {
          abort(transaction); // The remains of a commit after a crash.
          continue;
        }
        parts.addAll(parts(folder));
        if (Files.exists(folder.resolve(VOTE))) {
          prepared.add(transaction);
        }
      }
    }
    for (Path pipeline : list(visible)) {
      List<Transaction> shown = new ArrayList<>();
      for (Path batch : list(pipeline)) {
        shown.add(transaction(batch));
      }
      shown.stream().max(Comparator.naturalOrder()).ifPresent(committed::add);
    }
    return new Recovered(parts, prepared, committed);
  }

  @Override
  public void close() {
    System.err.println("the sink is closed");
  }

  /** The parts in a folder, by partition. */
  private List<Part> parts(Path folder) throws IOException {
    List<Part> parts = new ArrayList<>();
    for (Path file : list(folder)) {
      String[] name = file.getFileName().toString().split("-", 2);
      if (name.length == 2) {
        parts.add(new Part(transaction(folder), Integer.parseInt(name[0]), decode(name[1])));
      }
    }
    parts.sort(Comparator.comparingInt(Part::partition));
    return parts;
  }

  private Transaction transaction(Path path) throws IOException {
    String pipeline = decode(path.getParent().getFileName().toString());
    return new Transaction(pipeline, Long.parseLong(path.getFileName().toString()));
  }

  private Path folder(Transaction transaction) throws IOException {
    return staged.resolve(encode(transaction.pipeline())).resolve("" + transaction.batch());
  }

  private Path target(Transaction transaction) throws IOException {
    return visible.resolve(encode(transaction.pipeline())).resolve("" + transaction.batch());
  }

  private Path file(Part part) throws IOException {
    return folder(part.transaction()).resolve(part.partition() + "-" + encode(part.attempt()));
  }

  /** The name of a file. If an id is too long for one, {@code names/~HASH} has the id. */
  private String encode(String id) throws IOException {
    String name = URLEncoder.encode(id, UTF_8).replace(".", "%2E"); // never `..`
    if (name.length() <= MAX_NAME) {
      return name;
    }
    String hash = "~" + sha256(id); // URLEncoder leaves no `~`
    if (Files.notExists(names.resolve(hash))) {
      Path file = Files.writeString(Files.createTempFile(names, "new", ""), id);
      try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
        channel.force(true);
      }
      Files.move(file, names.resolve(hash), StandardCopyOption.ATOMIC_MOVE);
      sync(names);
    }
    return hash;
  }

  private String decode(String name) throws IOException {
    return name.startsWith("~")
        ? Files.readString(names.resolve(name))
        : URLDecoder.decode(name, UTF_8);
  }

  private static String sha256(String text) {
    try {
      byte[] hash = MessageDigest.getInstance("SHA-256").digest(text.getBytes(UTF_8));
      return HexFormat.of().formatHex(hash);
    } catch (NoSuchAlgorithmException error) {
      throw new AssertionError("every Java runtime has SHA-256", error);
    }
  }

  private static List<Path> list(Path folder) throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.toList();
    }
  }

  /** Makes the names in a folder durable. */
  private static void sync(Path folder) throws IOException {
    try (FileChannel channel = FileChannel.open(folder)) {
      channel.force(true);
    }
  }

  public static void main(String[] arguments) throws IOException {
    System.exit(Connector.run(new FileSink(Path.of(arguments[0]))));
  }
}
