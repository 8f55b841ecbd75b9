import java.io.RandomAccessFile;
import java.nio.channels.FileChannel;

/**
 * Maps a file 200 times, each time from other functions, in main and in another thread. Writes the
 * pages, and the call stacks as the runtime sees them.
 */
public class Stacks {
    static long state = 12345;
    static FileChannel file;
    static StringBuilder out = new StringBuilder();
    static int count = 0;

    static int draw() {
        state = state * 6364136223846793005L + 1442695040888963407L;
        return (int) (state >>> 33);
    }

    interface Shape { int call(int n) throws Exception; }
    static class Round implements Shape { public int call(int n) throws Exception { return deeper(n - 1) + 1; } }
    static class Square implements Shape { public int call(int n) throws Exception { return deeper(n - 1) + 4; } }

    static int leaf() throws Exception {
        StackTraceElement[] frames = Thread.currentThread().getStackTrace();
        int pages = ++count;
        if (count <= 200) return pages; // until everything is compiled
        file.map(FileChannel.MapMode.READ_ONLY, 0, 4096L * (pages - 200));
        out.append(pages - 200);
        for (int i = 1; i < frames.length; i++) {
            out.append(' ').append(frames[i].getClassName()).append('.').append(frames[i].getMethodName());
        }
        out.append('\n');
        return pages;
    }

    static int caught(int n) throws Exception {
        try {
            throw new IllegalStateException();
        } catch (IllegalStateException e) {
            return deeper(n - 1) + 1;
        } finally {
            draw();
        }
    }

    static synchronized int locked(int n) throws Exception { return deeper(n - 1) + 1; }

    static int deeper(int n) throws Exception {
        if (n <= 0) return leaf() + 1;
        switch (draw() % 5) {
            case 0: return new Round().call(n) + 1;
            case 1: return new Square().call(n) + 1;
            case 2: return caught(n) + 1;
            case 3: return locked(n) + 1;
            default:
                Shape lambda = m -> deeper(m - 1) + 1;
                return lambda.call(n) + 1;
        }
    }

    static void run() {
        try {
            for (int i = 0; i < 100; i++) deeper(i % 24);
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        RandomAccessFile raw = new RandomAccessFile(args[0], "rw");
        raw.setLength(4096 * 201);
        file = raw.getChannel();
        run();
        run();
        run();
        Thread thread = new Thread(Stacks::run);
        thread.start();
        thread.join();
        System.out.print(out);
    }
}
