package headrace.engine;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileAttribute;
import java.security.PrivilegedExceptionAction;
import java.util.concurrent.Semaphore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkFiles;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.util.SerializableConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads and writes files of a checkpoint for the Python processes of this JVM, which have no client for Hadoop's file systems.
 *
 * Clients connect to a Unix domain socket in a folder that only this user may enter. A request is an operation (1 reads, 2 writes;
 * one byte), the lengths of the URL (4 bytes), an offset and a length (8 bytes each), the URL, and then what is to be written. An
 * answer is any number of chunks of what is read, each after its size (4 bytes), and then 0, or a negative number for what failed
 * with the length of a text (4 bytes) and the text. What is not a request ends the connection.
 *
 * Compiled in the JVM by Janino, which knows neither lambdas nor the arguments of generic types.
 */
public class CheckpointFiles {
    private static final String ANNOUNCEMENT = "headrace-files";
    private static final int MOST_CONNECTIONS = 512;
    private static final int MOST_SOCKET_PATH = 100;
    private static final Logger LOG = LoggerFactory.getLogger("headrace.engine");

    private static Service service = null;
    private static String announcedIn = null;

    /** In the driver: the path of its JVM's socket. Starts the service if it does not run. */
    public static String serve() throws IOException {
        return serve(SparkContext.getOrCreate().hadoopConfiguration());
    }

    /** In a task: the same for its JVM, with the driver's configuration, as only the driver may have the keys of a store. */
    public static String serve(Broadcast configuration) throws IOException {
        return serve(((SerializableConfiguration) configuration.value()).value());
    }

    private static synchronized String serve(Configuration configuration) throws IOException {
        if (service == null) {
            Service started = new Service();
            started.start();
            service = started;
        }
        // In the driver, each SparkContext has a folder of its own; in an executor, it is the working folder.
        String folder = SparkFiles.getRootDirectory();
        if (!folder.equals(announcedIn)) {
            service.configuration = configuration;
            announce(new File(folder).getAbsoluteFile().toPath(), service.path);
            announcedIn = folder;
        }
        return service.path;
    }

    private static void announce(java.nio.file.Path folder, String path) throws IOException {
        java.nio.file.Path written = Files.createTempFile(folder, ANNOUNCEMENT, "", new FileAttribute[0]);
        Files.write(written, path.getBytes(StandardCharsets.UTF_8), new java.nio.file.OpenOption[0]);
        java.nio.file.Path announcement = folder.resolve(ANNOUNCEMENT);
        Files.move(written, announcement, new java.nio.file.CopyOption[] {StandardCopyOption.ATOMIC_MOVE});
        announcement.toFile().deleteOnExit();
    }

    /** Accepts connections, as long as this JVM lives. */
    public static class Service extends Thread {
        final String path;
        volatile Configuration configuration;
        private final UserGroupInformation user;
        private final ServerSocketChannel listening;
        private final Semaphore free = new Semaphore(MOST_CONNECTIONS);

        public Service() throws IOException {
            super("headrace-files");
            setDaemon(true);
            // On YARN, tasks run as the user of the application, which threads of later versions of Java do not inherit.
            this.user = UserGroupInformation.getCurrentUser();
            java.nio.file.Path folder = Files.createTempDirectory("headrace", new FileAttribute[0]);
            if (folder.toString().length() > MOST_SOCKET_PATH - 2) {
                Files.delete(folder);
                folder = Files.createTempDirectory(new File("/tmp").toPath(), "headrace", new FileAttribute[0]);
            }
            java.nio.file.Path socket = folder.resolve("s");
            // The last one is deleted first.
            folder.toFile().deleteOnExit();
            socket.toFile().deleteOnExit();
            this.path = socket.toString();
            this.listening = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
            this.listening.bind(UnixDomainSocketAddress.of(socket));
        }

        public void run() {
            while (true) {
                try {
                    SocketChannel channel = this.listening.accept();
                    if (this.free.tryAcquire()) {
                        new Connection(this, channel).start();
                    } else {
                        LOG.warn("more than {} connections for files of checkpoints", Integer.valueOf(MOST_CONNECTIONS));
                        channel.close();
                    }
                } catch (IOException failed) {
                    LOG.warn("cannot accept a connection for files of checkpoints", failed);
                    pause();
                }
            }
        }

        FileSystem fileSystem(Path path) throws IOException, InterruptedException {
            return (FileSystem) this.user.doAs(new Opening(path, this.configuration));
        }

        void release() {
            this.free.release();
        }

        private static void pause() {
            try {
                Thread.sleep(100);
            } catch (InterruptedException impossible) {
                throw new IllegalStateException(impossible);
            }
        }
    }

    /** Serves one process, until it ends. */
    public static class Connection extends Thread {
        private static final int READ = 1;
        private static final int WRITE = 2;
        private static final int ABSENT = -1;
        private static final int EXISTS = -2;
        private static final int SHORT = -3;
        private static final int FAILED = -4;
        private static final int MOST_NAME = 1 << 14;
        private static final long MOST_BYTES = 1L << 30;
        private static final int BUFFER = 1 << 16;
        private static final int CHUNK = 1 << 18;

        private final Service service;
        private final SocketChannel channel;
        private final DataInputStream in;
        private final DataOutputStream out;
        private final byte[] chunk = new byte[CHUNK];

        public Connection(Service service, SocketChannel channel) {
            super("headrace-files-connection");
            setDaemon(true);
            this.service = service;
            this.channel = channel;
            this.in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel)));
            this.out = new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(channel), BUFFER));
        }

        public void run() {
            try {
                for (int operation = this.in.read(); operation >= 0; operation = this.in.read()) {
                    answer(operation);
                    this.out.flush();
                }
            } catch (IOException ended) {
                LOG.info("a connection for files of checkpoints has ended: {}", ended.toString());
            } finally {
                this.service.release();
                try {
                    this.channel.close();
                } catch (IOException ignored) {
                }
            }
        }

        private void answer(int operation) throws IOException {
            int size = this.in.readInt();
            long offset = this.in.readLong();
            long length = this.in.readLong();
            boolean isKnown = operation == READ || operation == WRITE;
            if (!isKnown || size < 1 || size > MOST_NAME || offset < 0 || length < 0 || length > MOST_BYTES) {
                throw new IOException("not a request");
            }
            byte[] url = new byte[size];
            this.in.readFully(url);
            Throwable failure = operation == READ ? read(text(url), offset, length) : write(text(url), length);
            if (failure == null) {
                this.out.writeInt(0);
            } else {
                byte[] text = failure.toString().getBytes(StandardCharsets.UTF_8);
                this.out.writeInt(kind(failure, operation));
                this.out.writeInt(text.length);
                this.out.write(text);
            }
        }

        /** What failed, which may be that a class of the file system is missing; null if nothing did. */
        private Throwable read(String url, long offset, long length) {
            try {
                Path path = new Path(url);
                FSDataInputStream stream = this.service.fileSystem(path).open(path);
                try {
                    stream.seek(offset);
                    for (long left = length; left > 0; ) {
                        int count = (int) Math.min(left, CHUNK);
                        stream.readFully(this.chunk, 0, count);
                        this.out.writeInt(count);
                        this.out.write(this.chunk, 0, count);
                        left -= count;
                    }
                } finally {
                    stream.close();
                }
                return null;
            } catch (Throwable failed) {
                // If the client has gone, it cannot be told, which ends the connection.
                return failed;
            }
        }

        /** What failed, after all that the client sends has arrived; null if nothing did. */
        private Throwable write(String url, long length) throws IOException {
            CheckpointFileManager.CancellableFSDataOutputStream file = null;
            Throwable failure = null;
            boolean isWhole = false;
            try {
                try {
                    Path path = new Path(url);
                    file = create(this.service.fileSystem(path), path);
                } catch (Throwable failed) {
                    failure = failed;
                }
                for (long left = length; left > 0; ) {
                    int count = this.in.read(this.chunk, 0, (int) Math.min(left, CHUNK));
                    if (count < 0) {
                        throw new EOFException(url + " is cancelled: its writer has ended");
                    }
                    left -= count;
                    if (failure == null) {
                        try {
                            file.write(this.chunk, 0, count);
                        } catch (Throwable failed) {
                            failure = failed;
                        }
                    }
                }
                if (failure == null) {
                    try {
                        file.close();
                        isWhole = true;
                    } catch (Throwable failed) {
                        failure = failed;
                    }
                }
            } finally {
                if (file != null && !isWhole) {
                    file.cancel();
                }
            }
            return failure;
        }

        private static CheckpointFileManager.CancellableFSDataOutputStream create(FileSystem files, Path path) throws IOException {
            return QuickCheckpoints.isObjectStore(files, path) ? QuickCheckpoints.put(files, path, false) : new Direct(files, path);
        }

        private static int kind(Throwable failure, int operation) {
            if (failure instanceof FileNotFoundException) {
                return ABSENT;
            }
            if (failure instanceof FileAlreadyExistsException) {
                return EXISTS;
            }
            return failure instanceof EOFException && operation == READ ? SHORT : FAILED;
        }

        private static String text(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    /** A file that is written under its own name, and deleted where it is cancelled. */
    public static class Direct extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FileSystem files;
        private final Path path;

        public Direct(FileSystem files, Path path) throws IOException {
            super(files.create(path, false));
            this.files = files;
            this.path = path;
        }

        public void cancel() {
            try {
                close();
            } catch (IOException ignored) {
            }
            try {
                this.files.delete(this.path, false);
            } catch (IOException failed) {
                LOG.warn("cannot delete the incomplete file {}", this.path, failed);
            }
        }
    }

    public static class Opening implements PrivilegedExceptionAction {
        private final Path path;
        private final Configuration configuration;

        public Opening(Path path, Configuration configuration) {
            this.path = path;
            this.configuration = configuration;
        }

        public Object run() throws IOException {
            return this.path.getFileSystem(this.configuration);
        }
    }
}
