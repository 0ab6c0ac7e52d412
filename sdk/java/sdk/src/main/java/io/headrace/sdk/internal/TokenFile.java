package io.headrace.sdk.internal;

import io.headrace.sdk.InvalidConnectorException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;

/** A file that contains a token, and is read again before each session. */
public final class TokenFile {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  /** The size of the largest file with a token. */
  private static final int MAX_TOKEN_BYTES = 4096;

  /** How long to wait until whoever writes to a pipe has written the token and closed it. */
  private static final Duration PIPE_WITHIN = Duration.ofSeconds(30);

  private static final Pattern DESCRIPTOR = Pattern.compile("(/dev|/proc/self)/fd/\\d+|/dev/stdin");
  private static final Pattern TOKEN = Pattern.compile("[ -~]+");
  private static final Pattern SPACE_AROUND = Pattern.compile("^[ \\t\\r\\n]+|[ \\t\\r\\n]+\\z");
  private static final Pattern LINE_END = Pattern.compile("\\r\\n|\\r|\\n");
  private static final int EVERYONE_READS = 0004;
  private static final int TYPE = 0170000;
  private static final int FIFO = 0010000;
  private static final int SOCKET = 0140000;

  /** What pipes contained, by path, device and inode: they can be read once only. */
  private static final Map<List<Object>, byte[]> READ_ONCE = new ConcurrentHashMap<>();

  private final Path path;
  private String token;
  private String problem = "";

  /**
   * Reads a file for the first time.
   *
   * @param name the setting or variable that names the file
   * @param path the file
   * @throws InvalidConnectorException if it does not contain exactly one token
   */
  public TokenFile(String name, Path path) {
    this.path = path;
    try {
      this.token = read(path, PIPE_WITHIN);
    } catch (IOException error) {
      throw new InvalidConnectorException(name + ": " + error.getMessage(), error);
    }
    if (isExposed(path)) {
      LOG.log(Level.WARNING, "every user of this machine can read the token: chmod o= {0}", path);
    }
  }

  /** The last token that was read. */
  public String token() {
    return token;
  }

  /**
   * Reads the file again. While it contains no token, the last one stays in use, and each problem
   * is logged once.
   *
   * @return whether the token is another one now
   */
  public boolean refresh() {
    String before = token;
    try {
      token = read(path, PIPE_WITHIN);
      problem = "";
    } catch (IOException error) {
      if (!error.getMessage().equals(problem)) {
        LOG.log(
            Level.WARNING,
            "{0}; the token that it contained before stays in use",
            error.getMessage());
      }
      problem = error.getMessage();
    }
    return !token.equals(before);
  }

  /**
   * Returns the token that a file contains, without the white space around it.
   *
   * @param path the file
   * @param pipeWithin how long to wait for whoever writes to a pipe
   * @throws IOException if it contains none; the message names the file, and never its contents
   */
  static String read(Path path, Duration pipeWithin) throws IOException {
    byte[] content;
    try {
      content = content(path, pipeWithin);
    } catch (IOException error) {
      throw new IOException(path + ": " + reason(path, error), error);
    }
    String token =
        SPACE_AROUND.matcher(new String(content, StandardCharsets.ISO_8859_1)).replaceAll("");
    if (content.length > MAX_TOKEN_BYTES) {
      throw new IOException(path + " is too large for a token: more than 4,096 bytes");
    }
    if (token.isEmpty()) {
      throw new IOException(path + " is empty: write the token into it, and nothing else");
    }
    if (!TOKEN.matcher(token).matches()) {
      long lines = LINE_END.matcher(token).results().count() + 1;
      String what = lines > 1 ? lines + " lines" : "bytes that no token contains";
      throw new IOException(
          "%s contains %s: write one token into it, and nothing else".formatted(path, what));
    }
    return token;
  }

  /** Returns up to one byte more than a file with a token may contain. */
  private static byte[] content(Path path, Duration pipeWithin) throws IOException {
    Map<String, Object> found = Files.readAttributes(path, "unix:dev,ino,mode");
    int mode = (int) found.get("mode");
    if (Files.isDirectory(path)) {
      throw new IOException("it is a folder, and no file");
    }
    if (Files.isRegularFile(path)) {
      return content(path);
    }
    // It cannot be opened, not even by the number of its descriptor.
    if ((mode & TYPE) == SOCKET) {
      throw new IOException("it is a socket, and no file");
    }
    if ((mode & TYPE) != FIFO) {
      throw new IOException("it is a device, and no file");
    }
    // The number of a descriptor may be used again, for another pipe.
    List<Object> pipe = List.of(path, found.get("dev"), found.get("ino"));
    byte[] known = READ_ONCE.get(pipe);
    if (known != null) {
      return known;
    }
    byte[] content = pipeContent(path, pipeWithin);
    READ_ONCE.put(pipe, content);
    return content;
  }

  private static byte[] content(Path path) throws IOException {
    try (InputStream file = Files.newInputStream(path)) {
      return file.readNBytes(MAX_TOKEN_BYTES + 1);
    }
  }

  /** Reads a pipe on a thread of its own, which waits for ever if nobody ever writes to it. */
  private static byte[] pipeContent(Path path, Duration within) throws IOException {
    FutureTask<byte[]> reading = new FutureTask<>(() -> content(path));
    Thread thread = new Thread(reading, "headrace token");
    thread.setDaemon(true);
    thread.start();
    try {
      return reading.get(within.toMillis(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException error) {
      throw new IOException("nobody has written a token to it and closed it in time", error);
    } catch (ExecutionException error) {
      throw new IOException(error.getCause().getMessage(), error.getCause());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IOException("this thread was interrupted while it waited for the token", error);
    }
  }

  private static boolean isExposed(Path path) {
    try {
      return !isDescriptor(path)
          && Files.isRegularFile(path)
          && ((int) Files.getAttribute(path, "unix:mode") & EVERYONE_READS) != 0;
    } catch (IOException error) {
      return false; // It was there a moment ago.
    }
  }

  private static String reason(Path path, IOException error) {
    if (error instanceof NoSuchFileException) {
      return isDescriptor(path)
          ? "this process has no such file descriptor"
          : "there is no such file";
    }
    if (error instanceof java.nio.file.AccessDeniedException) {
      return "permission denied";
    }
    return error.getMessage();
  }

  private static boolean isDescriptor(Path path) {
    return DESCRIPTOR.matcher(path.toString()).matches();
  }
}
