package headrace.engine;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes checkpoints as Spark's own manager does, but sets the permissions of local files with a system call. Hadoop, where
 * its native library is not installed, forks a chmod for each of the four files of a micro-batch, 5 ms or more each.
 * Compiled in the JVM by Janino, which knows no lambdas.
 */
public class QuickCheckpoints extends FileSystemBasedCheckpointFileManager {
    public QuickCheckpoints(Path path, Configuration configuration) {
        super(path, withQuickFiles(configuration));
    }

    private static Configuration withQuickFiles(Configuration configuration) {
        Configuration own = new Configuration(configuration);
        own.setClassLoader(QuickCheckpoints.class.getClassLoader());
        own.setClass("fs.file.impl", QuickFiles.class, FileSystem.class);
        own.setBoolean("fs.file.impl.disable.cache", true);
        return own;
    }

    public static class QuickFiles extends LocalFileSystem {
        public QuickFiles() {
            super(new QuickRawFiles());
        }
    }

    public static class QuickRawFiles extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            String text = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        }
    }
}
