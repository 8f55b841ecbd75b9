// A search server: segments of an index are mapped, and each connection has a thread.
// java Server.java [SEGMENTS] [THREADS]
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.util.*;

public class Server {
    public static void main(String[] args) throws Exception {
        int segments = args.length > 0 ? Integer.parseInt(args[0]) : 300;
        int threads = args.length > 1 ? Integer.parseInt(args[1]) : 200;
        Path folder = Files.createTempDirectory("index");
        List<MappedByteBuffer> index = new ArrayList<>();
        for (int i = 0; i < segments; i++) {
            Path file = folder.resolve("segment" + i);
            try (FileChannel channel = new RandomAccessFile(file.toFile(), "rw").getChannel()) {
                index.add(channel.map(FileChannel.MapMode.READ_WRITE, 0, 65536));
            }
            Files.delete(file); // merged: its successor replaces it
        }
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(() -> {
                try { Thread.sleep(1000); } catch (InterruptedException e) { }
            });
            thread.start();
        }
        Thread.sleep(500);
        System.out.println(index.size() + " segments");
    }
}
