package headrace.engine;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes the files of a checkpoint whole or not at all, in the way that suits where they lie.
 *
 * <p>On a local disk as Spark's manager of the same name does, but it sets permissions with a
 * system call: Hadoop, where its native library is not installed, forks a chmod for each of the
 * four files of a micro-batch, 5 ms or more each.
 *
 * <p>In an object store a file is there once its stream is closed, so that it is put under its own
 * name, without a rename, which would be a copy. Where the store can do so, a file that must not be
 * there yet is put on that condition: of two drivers that write the same entry, one fails.
 *
 * <p>On a local disk, too, a file that must not be there yet gets its name only if no other file
 * has this name.
 *
 * <p>Elsewhere, as on HDFS, by a rename that either takes the place of another file, at once, or
 * fails where there is one.
 */
public final class QuickCheckpoints extends FileSystemBasedCheckpointFileManager {
  private static final String ABORTABLE = "fs.capability.outputstream.abortable";
  private static final String IF_ABSENT = "fs.option.create.conditional.overwrite";

  private final FileSystem files;
  private final Configuration configuration;
  private final boolean isObjectStore;

  public QuickCheckpoints(Path path, Configuration configuration) throws IOException {
    super(path, withQuickFiles(path, configuration));
    this.configuration = configuration;
    this.files = path.getFileSystem(configuration);
    this.isObjectStore = isObjectStore(this.files, path);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrites) {
    try {
      return CommitLogs.named(
          path,
          isObjectStore ? put(files, path, overwrites) : super.createAtomic(path, overwrites));
    } catch (IOException failed) {
      throw QuickCheckpoints.<RuntimeException>undeclared(failed);
    }
  }

  @Override
  public void renameTempFile(Path from, Path to, boolean overwrites) {
    try {
      CommitLogs.check(to, configuration);
      if (files instanceof LocalFileSystem local) {
        if (overwrites || !link(local, from, to)) {
          super.renameTempFile(from, to, overwrites);
        }
      } else {
        rename(from, to, overwrites);
      }
    } catch (IOException failed) {
      throw QuickCheckpoints.<RuntimeException>undeclared(failed);
    }
    CommitLogs.written(to);
  }

  /** Throws an exception, as Scala may, out of a method whose Scala declaration names none. */
  @SuppressWarnings({"unchecked", "TypeParameterUnusedInFormals"})
  private static <E extends Exception> E undeclared(Exception exception) throws E {
    throw (E) exception;
  }

  private void rename(Path from, Path to, boolean overwrites) throws IOException {
    try {
      FileContext context = FileContext.getFileContext(to.toUri(), configuration);
      context.rename(from, to, overwrites ? Options.Rename.OVERWRITE : Options.Rename.NONE);
    } catch (UnsupportedFileSystemException unsupported) {
      if (overwrites) {
        files.delete(to, false);
      }
      super.renameTempFile(from, to, overwrites);
    }
  }

  /**
   * Gives a local file its name, and fails if there is a file of that name: Hadoop's rename looks
   * first, and would then replace what another driver has written meanwhile.
   *
   * @return whether the disk can do so
   */
  private static boolean link(LocalFileSystem files, Path from, Path to) throws IOException {
    try {
      Files.createLink(files.pathToFile(to).toPath(), files.pathToFile(from).toPath());
    } catch (java.nio.file.FileAlreadyExistsException exists) {
      FileAlreadyExistsException known =
          new FileAlreadyExistsException(to + " was written meanwhile");
      known.initCause(exists);
      throw known;
    } catch (FileSystemException | UnsupportedOperationException unable) {
      return false;
    }
    java.nio.file.Path checksum = files.pathToFile(files.getChecksumFile(from)).toPath();
    if (Files.exists(checksum)) {
      Files.move(
          checksum,
          files.pathToFile(files.getChecksumFile(to)).toPath(),
          StandardCopyOption.REPLACE_EXISTING);
    }
    Files.deleteIfExists(files.pathToFile(from).toPath());
    return true;
  }

  static boolean isObjectStore(FileSystem files, Path path) throws IOException {
    return files.hasPathCapability(path, ABORTABLE);
  }

  static CancellableFSDataOutputStream put(FileSystem files, Path path, boolean overwrites)
      throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path);
    builder.overwrite(overwrites);
    builder.recursive();
    if (!overwrites && files.hasPathCapability(path, IF_ABSENT)) {
      builder.opt(IF_ABSENT, "true");
    }
    return new Put(builder.build(), path, files.getConf());
  }

  private static Configuration withQuickFiles(Path path, Configuration configuration)
      throws IOException {
    if (!(path.getFileSystem(configuration) instanceof LocalFileSystem)) {
      // Clients of other stores write to the local disk, too, and may keep the configuration of
      // whoever came first.
      return configuration;
    }
    Configuration own = new Configuration(configuration);
    own.setClassLoader(QuickCheckpoints.class.getClassLoader());
    own.setClass("fs.file.impl", QuickFiles.class, FileSystem.class);
    own.setBoolean("fs.file.impl.disable.cache", true);
    return own;
  }

  /** An object that is there once this is closed, and never where it is cancelled. */
  private static final class Put extends CancellableFSDataOutputStream {
    private final FSDataOutputStream upload;
    private final Path path;
    private final Configuration configuration;
    private boolean isOver;

    Put(FSDataOutputStream upload, Path path, Configuration configuration) {
      super(upload);
      this.upload = upload;
      this.path = path;
      this.configuration = configuration;
    }

    @Override
    public void close() throws IOException {
      if (isOver) {
        return;
      }
      CommitLogs.check(path, configuration);
      isOver = true;
      try {
        super.close();
        CommitLogs.written(path);
      } catch (IOException refused) {
        // The class belongs to a client of S3, which need not be there.
        if (!refused.getClass().getSimpleName().equals("RemoteFileChangedException")) {
          throw refused;
        }
        FileAlreadyExistsException exists =
            new FileAlreadyExistsException(path + " was written meanwhile");
        exists.initCause(refused);
        throw exists;
      }
    }

    @Override
    public void cancel() {
      if (isOver) {
        return;
      }
      isOver = true;
      upload.abort();
    }
  }

  /** The local file system. Hadoop creates it by its name. */
  public static final class QuickFiles extends LocalFileSystem {
    public QuickFiles() {
      super(new QuickRawFiles());
    }
  }

  private static final class QuickRawFiles extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      String text =
          permission.getUserAction().SYMBOL
              + permission.getGroupAction().SYMBOL
              + permission.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
    }
  }
}
