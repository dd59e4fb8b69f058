-- oltp_delete of stock sysbench, but each statement deletes a row that is there: the threads walk together
-- through the ids from the given one on. Drawn ids would soon be those of rows that are gone.
require("oltp_common")

sysbench.cmdline.options.from = {"The first id", 1}

function prepare_statements()
   prepare_for_each_table("deletes")
end

local step = 0

function event()
   local opt = sysbench.opt
   param[1].deletes[1]:set(opt.from + sysbench.tid + step * opt.threads)
   step = step + 1
   stmt[1].deletes:execute()
end
